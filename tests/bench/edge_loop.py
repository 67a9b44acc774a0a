"""Measures a whole edge and its wake-ups, with a stand-in for the router that sends everything back.

    python -m tests.bench.edge_loop [SECONDS] [RATE ...]      # needs strace for the system calls

datagrams ─► edge ─► raw ─► stand-in: one egress record for each raw record ─► egress ─► edge ─► datagrams

For each rate (0: at rest): processor time of edge and broker a frame, how often a thread of the edge slept and was
woken, system calls of the edge by name (from a second run under strace, which makes everything slower), and the time
from sending to receiving. Frames are 200 bytes from 16 senders to one receiver.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from gateway.core.event import Kind
from gateway.records.egress import Group
from gateway.records.egress_codec import EgressBuilder, Route
from gateway.records.raw_log.container import decode_record
from tests.bench.edge_rig import Rig, cpu_seconds, rig

NAME = "devices"
SENDERS, FRAME_BYTES = 16, 200
RATES = 0, 1_000, 10_000
PAUSE_SECONDS = 0.001
RECORD_BYTES = 1_000_000
WARM_SECONDS = 2.0


class StandIn(threading.Thread):
    """Reads `raw`, and writes `egress` for one receiver."""

    def __init__(self, servers: str, receiver: str) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "stand-in",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition("bench.raw", number, 0) for number in range(2)])
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 0})
        group = Group("emm", b"", addresses=((NAME, receiver),))
        self._route = Route(Kind.EVENT, "temp.high", "emm", 0, (group,))
        self.records = 0

    def run(self) -> None:
        while not self._over.is_set():
            record = self._consumer.poll(0.5)
            if record is None or record.error():
                continue
            builder = EgressBuilder(record.partition() or 0, record.offset() or 0, RECORD_BYTES)
            frames = [frame for frame in decode_record(record.value() or b"").frames if frame.source.protocol == "emm"]
            for index, frame in enumerate(frames):
                builder.deliver(index, 0, self._route, frame.received_at, frame.data)
            for value in builder.finish():
                self._producer.produce("bench.egress", value, partition=0)
                self.records += 1
            self._producer.poll(0)

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._consumer.close()


@dataclass
class Receiver(threading.Thread):
    """Counts what comes back, and how long it took."""

    sock: socket.socket
    took: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.sock.recv(2048):
                self.took.append(time.time() - np.frombuffer(data[:8], "<f8")[0])

    __hash__ = threading.Thread.__hash__


def send(senders: list[socket.socket], rate: int, seconds: float) -> int:
    """In bursts of a millisecond; returns how many."""
    body, begun, sent = os.urandom(FRAME_BYTES - 8), time.monotonic(), 0
    while (elapsed := time.monotonic() - begun) < seconds:
        for number in range(sent, int(elapsed * rate)):
            senders[number % SENDERS].send(np.float64(time.time()).tobytes() + body)
            sent += 1
        time.sleep(PAUSE_SECONDS)
    return sent


def wake_ups(pid: int) -> int:
    """Returns how often the threads of a process went to sleep, so far."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            found += int(status.read_text().partition("voluntary_ctxt_switches:")[2].split()[0])
    return found


@contextlib.contextmanager
def traced(pid: int, told: list[str]) -> Iterator[None]:
    """System calls of all threads, by name, while this lasts."""
    strace = shutil.which("strace")
    if strace is None:
        yield
        return
    process = subprocess.Popen(
        [strace, "-c", "-f", "-U", "calls,name", "-p", str(pid)], stderr=subprocess.PIPE, text=True
    )
    time.sleep(0.5)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        told += (process.communicate()[1] or "").splitlines()


def measure(edge: Rig, senders: list[socket.socket], receiver: Receiver, rate: int, seconds: float) -> None:
    send(senders, rate, WARM_SECONDS)
    receiver.took.clear()
    before, woken = (cpu_seconds(edge.edge), cpu_seconds(edge.broker)), wake_ups(edge.edge)
    begun = time.monotonic()
    sent = send(senders, rate, seconds)
    time.sleep(0.5)
    elapsed = time.monotonic() - begun
    spent = [now - then for now, then in zip((cpu_seconds(edge.edge), cpu_seconds(edge.broker)), before, strict=True)]
    woken = wake_ups(edge.edge) - woken
    if not rate:
        shares = [f"{part / elapsed:.2%}" for part in spent]
        print(f"at rest: edge {shares[0]} of a core, broker {shares[1]}, {woken / elapsed:.0f} wake-ups/s")
    else:
        p50, p99 = np.percentile(receiver.took, (50, 99)) * 1000
        print(
            f"{rate:6}/s: edge {spent[0] / sent * 1e6:6.1f} µs a frame, broker {spent[1] / sent * 1e6:6.1f}, "
            f"{woken / sent:.3f} wake-ups a frame, p50 {p50:.1f} p99 {p99:.1f} ms, {len(receiver.took) - sent:+} frames"
        )
    told: list[str] = []
    with traced(edge.edge, told):
        sent = send(senders, rate, seconds)
    calls = [line.split() for line in told if line.strip()[:1].isdigit()]
    each = [f"{name} {int(count) / (sent or seconds):.3f}" for count, name in calls[:12]]
    print(f"         system calls {'a frame' if rate else 'a second'}: {', '.join(each)}")


def main(seconds: float, rates: list[int]) -> None:
    with ExitStack() as ends:
        sock = ends.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_777_216)
        sock.bind(("127.0.0.1", 0))
        edge = ends.enter_context(rig({"name": NAME, "protocol": "emm", "scheme": "udp"}))
        stand_in = StandIn(f"127.0.0.1:{edge.kafka}", f"127.0.0.1:{sock.getsockname()[1]}")
        stand_in.start()
        ends.callback(stand_in.stop)
        receiver = Receiver(sock)
        receiver.start()
        senders = [
            ends.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))) for _ in range(SENDERS)
        ]
        for sender in senders:
            sender.connect(("127.0.0.1", edge.at[NAME]))
        for rate in rates:
            measure(edge, senders, receiver, rate, seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 8.0, list(map(int, sys.argv[2:])) or list(RATES))

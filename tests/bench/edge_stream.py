"""Speed of the edge on streams, up to the broker's acknowledgement, beside a plain server in C in the same run.

    python -m tests.bench.edge_stream [SECONDS]        # needs a C compiler, as `cc`

busy: one hsp connection that sends DATA_ACK as fast as it is taken. many: 500 connections with one frame each in turn,
20,000 frames/s in all. What is counted are acknowledgements that came back: for the edge, frames that stand in Kafka.
Fails where a core of the edge does not carry the first, or loses any of the second.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.edge_rig import cpu_seconds, rig, wait
from tests.integration.mesh import free_port

BODY = bytes(range(120))
ACK_BYTES = 5
BUSY_FRAMES_PER_SECOND = 300_000
UNLIMITED = {"frames_per_second_per_session": 1e9, "bytes_per_second_per_session": 2**40, "cpu_share_per_session": 1}
"""One connection is to show what a core of the edge carries, and not what it is allowed."""
MANY_CONNECTIONS, MANY_FRAMES_PER_SECOND = 500, 20_000


def frames(count: int, first: int = 1) -> bytes:
    """DATA_ACK with ids that count up."""
    head = struct.Struct(">BIHI").pack
    return b"".join(head(1, number, 17, len(BODY)) + BODY for number in range(first, first + count))


@dataclass
class Result:
    acknowledged: int
    seconds: float
    cpu_seconds: float
    lost: int = 0

    @property
    def per_core(self) -> float:
        """Frames that a core carries in a second."""
        return self.acknowledged / max(self.cpu_seconds, 1e-9)

    def __str__(self) -> str:
        rate = self.acknowledged / self.seconds
        cost = 1e6 / self.per_core
        share = self.cpu_seconds / self.seconds
        return f"{rate:10,.0f} frames/s, {self.lost} lost  {cost:7.2f} µs CPU a frame  {share:5.0%} of a core"


def busy(port: int, pid: int, seconds: float) -> Result:
    block = frames(2_000)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setblocking(False)
        began, spent = time.monotonic(), cpu_seconds(pid)
        sent = taken = 0
        view = memoryview(block)
        while (now := time.monotonic()) < began + seconds:
            with contextlib.suppress(BlockingIOError):
                sent += sock.send(view[sent % len(block) :])
            with contextlib.suppress(BlockingIOError):
                taken += len(sock.recv(1_048_576))
        return Result(taken // ACK_BYTES, now - began, cpu_seconds(pid) - spent)


def many(port: int, pid: int, seconds: float) -> Result:
    """Open loop: what is not taken in its turn is late, and shows as less acknowledged than sent."""
    frame = frames(1)
    pause = 1 / MANY_FRAMES_PER_SECOND
    with contextlib.ExitStack() as ends, selectors.DefaultSelector() as ready:
        peers = [ends.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(MANY_CONNECTIONS)]
        for peer in peers:
            peer.setblocking(False)
            ready.register(peer, selectors.EVENT_READ)
        began, spent, sent, taken = time.monotonic(), cpu_seconds(pid), 0, 0
        while (now := time.monotonic()) < began + seconds:
            due = int((now - began) / pause)
            while sent < due:
                peers[sent % MANY_CONNECTIONS].send(frame)
                sent += 1
            for key, _ in ready.select(pause * 20):
                taken += len(key.fileobj.recv(65_536))  # type: ignore[union-attr]
        cost = cpu_seconds(pid) - spent
        deadline = time.monotonic() + 5
        while taken < sent * ACK_BYTES and time.monotonic() < deadline:
            for key, _ in ready.select(0.1):
                taken += len(key.fileobj.recv(65_536))  # type: ignore[union-attr]
        return Result(taken // ACK_BYTES, now - began, cost, sent - taken // ACK_BYTES)


@contextlib.contextmanager
def plain() -> Iterator[tuple[int, int]]:
    """Port and process id."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "echo")
        subprocess.run(["cc", "-O2", "-o", str(program), str(Path(__file__).with_name("echo.c"))], check=True)
        yield from _served_by(program)


def _served_by(program: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    process = subprocess.Popen([str(program), str(port)])

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    wait(answers)
    try:
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def main(seconds: float) -> int:
    size, load = len(frames(1)), os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}, {seconds:.0f} s a run, frames of {size} bytes")
    plc = {"name": "plc", "protocol": "hsp", "types": {17: "temp.high"}} | UNLIMITED
    found: dict[str, dict[str, Result]] = {"busy": {}, "many": {}}
    with rig(plc) as edge, plain() as (port, pid):
        for name, measure in (("busy", busy), ("many", many)):
            found[name]["plain"] = measure(port, pid, seconds)
            found[name]["edge"] = measure(edge.at["plc"], edge.edge, seconds)
    for name, results in found.items():
        for what, result in results.items():
            print(f"{name:5} {what:6} {result}")
        ratio = results["plain"].per_core / results["edge"].per_core
        print(f"{name:5} the edge costs {ratio:.2f} times the CPU of a plain server in C")
    crowd = found["many"]["edge"]
    enough = found["busy"]["edge"].per_core >= BUSY_FRAMES_PER_SECOND and crowd.per_core >= MANY_FRAMES_PER_SECOND
    return 0 if enough and not crowd.lost else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0))

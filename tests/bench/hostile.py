"""An honest session beside attackers, one kind after another, against a real edge and a real broker.

    python -m tests.bench.hostile [SECONDS] [ATTACK ...]

The honest peer sends 200 hsp frames a second, open loop, and measures how long each takes until it is acknowledged: by
then it stands in Kafka. The attackers are a process of their own. Fails where the honest p99 is more than three times
what it is without attackers (and 25 ms, below which it is the machine that speaks), where an honest frame is lost, or
where the edge has more than 512 MiB in RAM. Between two attacks the edge works off what the last one has left in its
sockets. `cpu` is the share of one core that the edge, the broker, the attacker and the honest peer itself have used.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.protocols.emp.codec import encode as encode_emp
from gateway.protocols.emp.codec import encode_hello
from gateway.protocols.emp.extensions import compression_block, deflate
from gateway.protocols.emp.frames import Message, MessageType, Scheme
from gateway.protocols.yamp.codec import encode as encode_yamp
from gateway.protocols.yamp.frames import Format, Handshake, Ping, UserEvent
from tests.bench.edge_rig import Rig, cpu_seconds, rig
from tests.bench.edge_udp import packets

HONEST_PER_SECOND = 200
MOST_TIMES_SLOWER, NOISE_SECONDS = 3.0, 0.025
MOST_RESIDENT_BYTES = 512 * 2**20
ATTACK_BYTES_PER_SECOND = 1_250_000
"""10 Mbit/s."""
CONNECTIONS_OF_AN_ATTACK = 4
SETTLE_SECONDS, LOOK_SECONDS, IDLE_SHARE = 20.0, 0.5, 0.2
FORGED_PER_SECOND, DIALLED_PER_SECOND, SLOW_READERS = 50_000, 500, 1_000
MIB = 2**20
FRAME = struct.Struct(">BIHI")
ACK_BYTES = 5
LISTENERS = (
    {"name": "hsp", "protocol": "hsp", "types": {17: "temp.high"}},
    {"name": "emp", "protocol": "emp"},
    {"name": "yamp", "protocol": "yamp", "formats": ["json"]},
    {"name": "wolpertinger", "protocol": "wolpertinger"},
    {"name": "emm", "protocol": "emm", "scheme": "udp"},
)


# -- the honest peer -------------------------------------------------------------------------------------------------


@dataclass
class Result:
    p50: float
    p99: float
    lost: int
    resident_bytes: int
    cores: tuple[float, ...]

    def __str__(self) -> str:
        cpu = " / ".join(f"{share:3.0%}" for share in self.cores)
        times = f"p50 {self.p50 * 1e3:7.1f} ms  p99 {self.p99 * 1e3:7.1f} ms"
        return f"{times}  lost {self.lost}  {self.resident_bytes / MIB:4.0f} MiB  cpu {cpu}"


def honest(edge: Rig, seconds: float, *attackers: int) -> Result:
    """Measures the honest peer. `attackers` are processes whose time is told too."""
    taken = b""
    processes = (edge.edge, edge.broker, *attackers, os.getpid())
    spent, started = [cpu_seconds(pid) for pid in processes], time.monotonic()
    waits: list[float] = []
    with socket.create_connection(("127.0.0.1", edge.at["hsp"])) as sock:
        sock.setblocking(False)
        began, sent = time.monotonic(), 0
        most, end = 0, began + seconds
        while (now := time.monotonic()) < end + 10 and (now < end or len(waits) < sent):
            while now < end and began + sent / HONEST_PER_SECOND <= now:
                sock.send(FRAME.pack(1, sent + 1, 17, 100) + bytes(100))
                sent += 1
            with contextlib.suppress(BlockingIOError):
                taken += sock.recv(65_536)
            while len(taken) >= ACK_BYTES:
                number = int.from_bytes(taken[1:ACK_BYTES], "big")
                waits.append(time.monotonic() - began - (number - 1) / HONEST_PER_SECOND)
                taken = taken[ACK_BYTES:]
            most = max(most, resident(edge.edge))
            time.sleep(0.0005)
    waits.sort()
    elapsed = time.monotonic() - started
    cores = tuple((cpu_seconds(pid) - before) / elapsed for pid, before in zip(processes, spent, strict=True))
    return Result(waits[len(waits) // 2], waits[int(len(waits) * 0.99)], sent - len(waits), most, cores)


def settle(edge: Rig) -> None:
    """Waits until the edge has worked off what an attack has left behind."""
    until = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < until:
        before = cpu_seconds(edge.edge)
        time.sleep(LOOK_SECONDS)
        if cpu_seconds(edge.edge) - before < IDLE_SHARE * LOOK_SECONDS:
            return


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- attackers -------------------------------------------------------------------------------------------------------


def floods(port: int, greeting: bytes, message: bytes, *, numbered: bool = False) -> None:
    """Sends the message over and over, at so many bytes a second together, and throws away what is answered.
    `numbered`: there is a place for its number in it."""
    block = message * max(1_460 // len(message), 1)
    peers = [dialled(port, greeting) for _ in range(CONNECTIONS_OF_AN_ATTACK)]
    sent, began = 0, time.monotonic()
    for at in itertools.cycle(range(len(peers))):
        if sent > (time.monotonic() - began) * ATTACK_BYTES_PER_SECOND:
            time.sleep(0.001)
            continue
        sent += len(block)
        try:
            with contextlib.suppress(BlockingIOError):
                peers[at].recv(65_536)
            with contextlib.suppress(BlockingIOError):
                peers[at].send(block % sent if numbered else block)
        except OSError:
            peers[at] = dialled(port, greeting)


def dialled(port: int, greeting: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(greeting)
    sock.setblocking(False)
    return sock


def xml_in_gzip(at: Mapping[str, int]) -> None:
    zipped = gzip.compress(b"<Hello>" + b"<b/>" * (MIB // 4 - 8) + b"</Hello>")
    message = b"message_id:%%08d;gzip:%d;%s\n" % (len(zipped), b64encode(zipped))
    floods(at["wolpertinger"], b"", message, numbered=True)


def gzip_bodies(at: Mapping[str, int]) -> None:
    message = Message(MessageType.DATA, deflate(bytes(MIB)), (compression_block(Scheme.GZIP),))
    floods(at["emp"], encode_hello(), encode_emp(message))


def nested_json(at: Mapping[str, int]) -> None:
    event = encode_yamp(UserEvent(bytes(16), "temp.high", b"[" + b"[]," * 300_000 + b"0]"))
    floods(at["yamp"], encode_yamp(Handshake(Format.JSON)), event)


def pings(at: Mapping[str, int]) -> None:
    floods(at["hsp"], b"", b"\x03" * 1_460)


def forged_packets(at: Mapping[str, int]) -> None:
    """Returns packets of one node, hence all in one partition."""
    packet, sent, began = packets()[0], 0, time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", at["emm"]))
        while True:
            for _ in range(sent, due := int((time.monotonic() - began) * FORGED_PER_SECOND)):
                sock.send(packet)
            sent = due
            time.sleep(0.001)


def connections(at: Mapping[str, int]) -> None:
    began = time.monotonic()
    for number in itertools.count():
        socket.create_connection(("127.0.0.1", at["hsp"])).close()
        time.sleep(max(began + number / DIALLED_PER_SECOND - time.monotonic(), 0))


def slow_readers(at: Mapping[str, int]) -> None:
    """They ping and do not read the pongs; what they are owed piles up."""
    ping = encode_yamp(Ping(bytes(255))) * 64
    stalls(at["yamp"], SLOW_READERS, encode_yamp(Handshake(Format.JSON)), ping)


def frames_without_end(at: Mapping[str, int]) -> None:
    stalls(at["hsp"], SLOW_READERS, FRAME.pack(1, 1, 17, MIB), bytes(900_000))


def stalls(port: int, count: int, greeting: bytes, message: bytes) -> None:
    """Each connection gets the message again and again, as far as the edge takes it, and is never read."""
    with selectors.DefaultSelector() as ready:
        for _ in range(count):
            ready.register(dialled(port, greeting), selectors.EVENT_WRITE)
        left = {key.fileobj: message for key in ready.get_map().values()}
        while ready.get_map():
            for key, _ in ready.select(1.0):
                sock = key.fileobj
                try:
                    left[sock] = left[sock][sock.send(left[sock]) :] or message  # type: ignore[union-attr]
                except OSError:
                    ready.unregister(sock)
            time.sleep(0.001)


ATTACKS: Mapping[str, Callable[[Mapping[str, int]], None]] = {
    attack.__name__: attack
    for attack in (
        xml_in_gzip, gzip_bodies, nested_json, pings, forged_packets, connections, slow_readers, frames_without_end
    )
}  # fmt: skip


@contextlib.contextmanager
def attacked(edge: Rig, name: str) -> Iterator[int]:
    """Yields the process of the attacker."""
    ports = [f"{listener}={port}" for listener, port in edge.at.items()]
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.hostile", "--attack", name, *ports])
    try:
        time.sleep(1.0)
        if process.poll() is not None:
            raise RuntimeError(f"{name} has ended by itself")
        yield process.pid
    finally:
        process.kill()
        process.wait()
        settle(edge)


# -- the bench -------------------------------------------------------------------------------------------------------


def main(seconds: float, names: list[str]) -> int:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {seconds:.0f} s an attack", flush=True)
    failed = False
    with rig(*LISTENERS) as edge:
        honest(edge, 1.0)
        quiet = honest(edge, seconds)
        most = max(MOST_TIMES_SLOWER * quiet.p99, NOISE_SECONDS)
        print(f"{'quiet':20} {quiet}", flush=True)
        for name in names:
            with attacked(edge, name) as attacker:
                result = honest(edge, seconds, attacker)
            good = result.p99 <= most and not result.lost and result.resident_bytes <= MOST_RESIDENT_BYTES
            failed |= not good
            print(f"{name:20} {result}  {result.p99 / quiet.p99:5.1f} times  {'' if good else 'FAILED'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if sys.argv[1:2] == ["--attack"]:
        places = (place.split("=") for place in sys.argv[3:])
        ATTACKS[sys.argv[2]]({listener: int(port) for listener, port in places})
    else:
        sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0, sys.argv[2:] or list(ATTACKS)))

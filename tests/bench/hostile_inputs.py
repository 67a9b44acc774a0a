"""Measures hostile input of little size: the bytes of each shape against CPU time and memory.

    python -m tests.bench.hostile_inputs

One table, as it stands in gateway/docs/security.md. The edge's part is the session (for datagrams: the peek at the
node). The router's part is all of the row functions, with a subscriber of each protocol. `ratio` is CPU time per byte,
where an honest event of 200 bytes over the same protocol is 1.
"""

from __future__ import annotations

import base64
import gc
import gzip
import json
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gateway.cli.edge import YOUNG_OBJECTS
from gateway.protocols import protocols
from gateway.protocols.actions import FramesReceived
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.protocols.session_settings import SessionSettings
from gateway.records.raw_log.frames import Fact
from tests.unit.protocols.contract.streams import examples
from tests.unit.protocols.emm import vectors
from tests.unit.routing.mesh_in_a_log import LISTENERS, NOW, MeshInALog, Peer

ROUNDS = 5
MIB = 1 << 20
FACTS: dict[str, dict[str, Fact]] = {"yamp": {"format": "json"}, "emp": {"envelope": True}, "hsp": {"envelope": True}}


@dataclass(frozen=True)
class Shape:
    """Bytes that a peer sends after its opening. `is_honest`: what the others are compared with."""

    protocol: str
    name: str
    data: bytes
    is_honest: bool = False


class Cost(NamedTuple):
    """Seconds of CPU, and bytes of memory at the most."""

    edge: float
    router: float
    memory: int


def shapes() -> Iterator[Shape]:
    yield from _emm()
    yield from _emp()
    yield from _hsp()
    yield from _wolpertinger()
    yield from _yamp()


# -- shapes ------------------------------------------------------------------------------------------------------------


def _emm() -> Iterator[Shape]:
    subject, body = Field(FieldType.STRING, b"temp.high"), Field(FieldType.BINARY, b"x" * 100)
    signed = codec.encode(codec.Draft(b"m-id", NOW, (subject, body), EventType.EVENT), vectors.SIGNER)
    yield Shape("emm", "an honest packet, HMAC and signature", signed, is_honest=True)
    yield Shape("emm", "forged HMAC", signed[:-1] + bytes([signed[-1] ^ 1]))
    foreign = Signer(vectors.NODE, vectors.KEY_ID, None, vectors.SEED)
    by_signature = codec.encode(codec.Draft(b"m-id", NOW, (subject, body), EventType.EVENT), foreign)
    yield Shape("emm", "forged signature", by_signature[:-1] + bytes([by_signature[-1] ^ 1]))
    yield Shape("emm", "an empty datagram", b"\0")


def _emp() -> Iterator[Shape]:
    def sized(kind: bytes, rest: bytes) -> bytes:
        return struct.pack(">I", 8 + len(rest)) + kind + rest

    def zipped(body: bytes) -> bytes:
        block = bytes.fromhex("0000000c 01000000 01000000")
        return sized(bytes.fromhex("05800000"), block + gzip.compress(body))

    yield Shape("emp", "an honest event", sized(bytes.fromhex("05000000"), b"x" * 192), is_honest=True)
    yield Shape("emp", "1 MiB of zeros, compressed", zipped(bytes(MIB - 64)))
    yield Shape("emp", "100 empty frames", sized(bytes.fromhex("05000000"), b"") * 100)
    yield Shape("emp", "100 pings", sized(bytes.fromhex("02000000"), b"") * 100)


def _hsp() -> Iterator[Shape]:
    def data(body: bytes) -> bytes:
        return b"\0\0\x99" + struct.pack(">I", len(body)) + body

    yield Shape("hsp", "an honest event", data(b"x" * 193), is_honest=True)
    yield Shape("hsp", "100 empty frames", data(b"") * 100)
    yield Shape("hsp", "100 pings", b"\3" * 100)


def _wolpertinger() -> Iterator[Shape]:
    call = (
        '<RemoteMethodCall xmlns="http://nerdcave.eu/wolpertinger"><ComponentName>%s</ComponentName>'
        "<CallId>f5afec97-5839-4666-b8d3-8c108b241720</CallId><MethodName>Create</MethodName>"
        "<Parameters>%s</Parameters></RemoteMethodCall>"
    )

    def line(document: str, *, zipped: bool = False) -> bytes:
        data = document.encode()
        packed = gzip.compress(data) if zipped else data
        options = b"gzip:%d;" % len(packed) if zipped else b""
        return b"message_id:1;%s%s\n" % (options, base64.b64encode(packed))

    one = '<object type="string">x</object>'
    yield Shape("wolpertinger", "an honest call", line(call % ("Orders", one)), is_honest=True)
    yield Shape("wolpertinger", "1 MiB of values, compressed", line(call % ("Orders", one * 32_000), zipped=True))
    yield Shape("wolpertinger", "4,096 values, compressed", line(call % ("Orders", one * 4_096), zipped=True))
    yield Shape("wolpertinger", "1 MiB of spaces, compressed", line(call % ("Orders", " " * (MIB - 600)), zipped=True))
    yield Shape(
        "wolpertinger", "a subject of 1 MiB, compressed", line(call % ("a." * (MIB // 2 - 400), one), zipped=True)
    )
    digits = f'<object type="double">{"1" * 700_000}x</object>'
    yield Shape("wolpertinger", "700,000 digits and a letter, compressed", line(call % ("Orders", digits), zipped=True))
    faulty = '<object x="1"/>' * 4_000
    faulty_call = line(call % ("Orders", faulty), zipped=True)
    yield Shape("wolpertinger", "4,000 objects without a type, compressed", faulty_call)
    declared = "".join(f' xmlns:n{number}="u"' for number in range(1_000))
    around = (call % ("Orders", '<object type="a"/>' * 1_000)).replace("<Parameters", f"<Parameters{declared}")
    yield Shape("wolpertinger", "1,000 objects in 1,000 namespaces, compressed", line(around, zipped=True))
    yield Shape("wolpertinger", "100 lines of nothing", b"\n" * 100)


def _yamp() -> Iterator[Shape]:
    def event(subject: bytes, body: bytes) -> bytes:
        return b"\5" + bytes(16) + bytes([len(subject)]) + subject + struct.pack(">I", len(body)) + body

    nested = b"[" * 60 + b"]" * 60
    yield Shape("yamp", "an honest event", event(b"temp.a", b'"' + b"x" * 172 + b'"'), is_honest=True)
    yield Shape("yamp", "1 MiB of empty lists", event(b"temp.a", b"[" + b"[]," * 340_000 + b"1]"))
    yield Shape("yamp", "nested lists", event(b"temp.a", nested))
    yield Shape("yamp", "a subject of 32 tokens", event(b".".join([b"a"] * 32), b"1"))
    asked = json.dumps({"subject": "a.b"}).encode()
    yield Shape(
        "yamp", "a subscription", b"\6" + bytes(16) + b"\x0emesh.subscribe\0" + struct.pack(">I", len(asked)) + asked
    )
    yield Shape("yamp", "100 pings", b"\1\0" * 100)


# -- measuring ---------------------------------------------------------------------------------------------------------


def cost(shape: Shape) -> Cost:
    """The least of some rounds: what else the machine does only adds to it."""
    edges, routers = zip(*(_seconds(shape) for _ in range(ROUNDS)), strict=True)
    tracemalloc.start()
    _seconds(shape)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Cost(min(edges), min(routers), peak)


def _seconds(shape: Shape) -> tuple[float, float]:
    """CPU of the edge's part and of the router's, for one arrival."""
    mesh, peer = _mesh(shape.protocol)
    if shape.protocol == "emm":
        peek = protocols()["emm"].partition_key
        assert peek is not None
        return _timed(lambda: peek(shape.data)), _timed(lambda: mesh.log(peer.source, shape.data))
    frames: list[bytes] = []
    edge = _timed(lambda: frames.extend(_through_session(shape)))
    return edge, _timed(lambda: [mesh.log(peer.source, frame) for frame in frames])


def _through_session(shape: Shape) -> list[bytes]:
    spec = protocols()[shape.protocol]
    assert spec.session is not None
    session = spec.session(SessionSettings(token=bytes), spec.options())
    session.start(0.0)
    session.receive(examples(shape.protocol).opening, 0.0)
    session.actions()
    session.receive(shape.data, 0.0)
    received = [action for action in session.actions() if isinstance(action, FramesReceived)]
    session.data_to_send()
    return [frame for one in received for frame in _cut(one)]


def _cut(received: FramesReceived) -> Iterator[bytes]:
    at = 0
    for length in received.lengths:
        yield bytes(received.data[at : at + length])
        at += length


def _mesh(protocol: str) -> tuple[MeshInALog, Peer]:
    mesh = MeshInALog(partitions=8, settings={"listeners": LISTENERS}, keys=vectors.RING.nodes)
    for name in protocols():
        if name != "emm":
            mesh.open(name, facts=FACTS.get(name, {}), subscribe=("temp.>", "Orders.>"))
    peer = mesh.open(protocol, facts=FACTS.get(protocol, {}))
    mesh.forget_outputs()
    return mesh, peer


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> int:
    gc.freeze()  # as edges and workers do
    gc.set_threshold(YOUNG_OBJECTS)
    print("| protocol | input | bytes | edge ms | router ms | µs a byte | ratio | MiB |")
    print("|---|---|---|---|---|---|---|---|")
    honest = 1.0
    for shape in shapes():
        taken = cost(shape)
        per_byte = (taken.edge + taken.router) / len(shape.data) * 1e6
        honest = per_byte if shape.is_honest else honest
        row = [shape.protocol, shape.name, f"{len(shape.data):,}", f"{taken.edge * 1e3:.2f}"]
        row += [f"{taken.router * 1e3:.2f}", f"{per_byte:.2f}", f"{per_byte / honest:.1f}"]
        print(f"| {' | '.join(row)} | {taken.memory / MIB:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

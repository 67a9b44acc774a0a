"""The fast pass is held to the plain path: the same records, in the same order, the same counts, the same keys."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import Key
from gateway.auth.verification import public_of
from gateway.core.event import SECOND_US
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import encode
from gateway.records.raw_log.container import ContainerBuilder, read_columns
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from streaming_jobs.routing.columnar import FEWEST_FRAMES, ColumnarPass, CommonRecord
from tests.unit.protocols.emm.mutations import nearly_right
from tests.unit.protocols.emm.test_batch import MANY_KEYS
from tests.unit.protocols.emm.vectors import KEY_ID, RECEIVED_AT, SECRET, SEED, TIMESTAMP
from tests.unit.routing.asking import client, request
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, MeshInALog, Peer
from tests.unit.routing.twin import Twin, Written

NIGHTLY = settings.get_current_profile_name() == "nightly"
EXAMPLES = 3_000 if NIGHTLY else 80
NODES = [bytes(15) + bytes([number]) for number in range(1, 5)]
KEYS = {
    **MANY_KEYS.nodes,
    **{node: {KEY_ID: Key(KEY_ID, SECRET, public_of(SEED), default=True)} for node in NODES},
}
SIGNERS = [
    signer
    for node in NODES
    for signer in (
        Signer(node, KEY_ID, SECRET),
        Signer(node, None, SECRET),
        Signer(node, KEY_ID, SECRET, SEED),
        Signer(node, KEY_ID, None, SEED),
    )
]
FORGERS = [
    Signer(b"\7" * 16, KEY_ID, SECRET),
    Signer(NODES[0], b"\7" * 4, SECRET, SEED),
    Signer(NODES[0], KEY_ID, b"no secret"),
]
LISTENERS = [
    {"name": "emm", "protocol": "emm", "listen": "udp://127.0.0.1:5050"},
    {"name": "loose", "protocol": "emm", "listen": "udp://127.0.0.1:5051", "freshness": "timestamp_only"},
    {"name": "resign", "protocol": "emm", "listen": "udp://127.0.0.1:5052", "forward": "resign", "freshness": "off"},
    {"name": "yamp", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"},
]
DENIED = "00000000-0000-0000-0000-000000000002"
PERMISSIONS: list[dict[str, Any]] = [
    {"nodes": [DENIED], "publish": {"deny": ["secret.>"]}, "subscribe": {"deny": ["temp.low"]}}
]
SUBJECTS = ("temp.high", "temp.low", "temp/high", "secret.x", "größe", "mesh.ping", "a.*", "temp." + "x" * 150, "b")
PATTERNS = ("temp.>", "temp.*", ">", "secret.>", "b")
BODIES = (
    Field(FieldType.JSON, b'{"celsius": 21.5}'),
    Field(FieldType.JSON, b' [1, "x"] '),
    Field(FieldType.JSON, b'"\\ud800"'),
    Field(FieldType.JSON, b"{"),
    Field(FieldType.JSON, b'["' + b"[" * 205 + b'"]'),
    Field(FieldType.JSON, b"[" * 66 + b"]" * 66),
    Field(FieldType.STRING, b"text"),
    Field(FieldType.STRING, b"\xff"),
    Field(FieldType.INTEGER, b"\0\0\1\0"),
    Field(FieldType.FLOAT, b"\x7f\xc0\0\0"),
    Field(FieldType.BINARY, b"\0\1"),
)


def mesh_with(**more: Any) -> MeshInALog:
    return MeshInALog(keys=KEYS, settings={"listeners": LISTENERS, "permissions": PERMISSIONS, **more})


def twins(**more: Any) -> tuple[Twin, Twin]:
    return Twin(mesh_with(**more), in_columns=False), Twin(mesh_with(**more), in_columns=True)


def event(random: Random) -> bytes:
    fields = [Field(FieldType.STRING, random.choices(SUBJECTS, (20, 5, 2, 2, 2, 1, 1, 2, 2))[0].encode())]
    if random.random() < 0.9:
        fields.append(random.choices(BODIES, (20, 3, 1, 1, 1, 1, 2, 1, 2, 2, 2))[0])
    if random.random() < 0.1:
        fields.append(Field(FieldType.TIMESTAMP, random.choice((TIMESTAMP, TIMESTAMP - 400)).to_bytes(8, "big")))
    message_id = random.randrange(200).to_bytes(4, "big") if random.random() < 0.3 else random.randbytes(4)
    sent = random.choices((TIMESTAMP, TIMESTAMP - 1, TIMESTAMP - 301), (20, 5, 1))[0]
    flags = random.random() < 0.05
    draft = codec.Draft(message_id, sent, tuple(fields), flags=int(flags))
    packet = codec.encode(draft, random.choice(SIGNERS if random.random() < 0.95 else FORGERS))
    return packet if random.random() < 0.95 else packet[:-1] + bytes([packet[-1] ^ 1])


def presence(random: Random) -> bytes:
    wanted = json.dumps({"subscribe": random.sample(PATTERNS, random.randrange(3))}).encode()
    kind = random.choice((EventType.HELLO, EventType.HEARTBEAT))
    field = Field(FieldType.BINARY, wanted)
    if kind is EventType.HEARTBEAT:
        field = Field(FieldType.TIMESTAMP, TIMESTAMP.to_bytes(8, "big"))
    return codec.encode(codec.Draft(random.randbytes(4), TIMESTAMP, (field,), kind), random.choice(SIGNERS))


def said_over_yamp(random: Random) -> bytes:
    number = random.randrange(1_000)
    if random.random() < 0.5:
        return encode(yamp.UserEvent(number.to_bytes(16, "big"), random.choice(("temp.high", "b")), b"1"))
    group = {"group": "workers"} if random.random() < 0.3 else {}
    verb = random.choice(("subscribe", "unsubscribe"))
    return request(f"mesh.{verb}", {"subject": random.choice(PATTERNS), **group}, number)


def record(random: Random, size: int, peers: list[Peer], oddity: float) -> bytes:
    edge = random.choice((EDGE, "edge-1"))
    devices = [
        FrameSource("emm", listener, edge, EPOCH, peer=f"192.0.2.7:{port}")
        for listener in ("emm", "loose", "resign")
        for port in (4000, 4001)
    ]
    builder = ContainerBuilder(edge, EPOCH)
    at = RECEIVED_AT
    for _ in range(size):
        at += random.choice((0, 0, 1, 400_000))
        source = random.choices(devices, (9, 5, 2, 2, 1, 1))[0]
        if random.random() >= oddity:
            builder.add(source, at, event(random))
            continue
        match random.randrange(5):
            case 0:
                builder.add(source, at, nearly_right(random))
            case 1:
                builder.add(source, at, presence(random))
            case 2:
                builder.add(replace(random.choice(peers).source, edge=edge), at, said_over_yamp(random))
            case 3:
                builder.add_again(RawFrame(event(random), source, at), Replayed(f"0-9-{random.randrange(50)}", at))
            case _:
                builder.add(source, at, random.randbytes(random.randrange(100)))
    return builder.build()


def compare(plain: Written, columnar: Written) -> None:
    assert columnar.others == plain.others
    assert columnar.of("events") == plain.of("events")
    assert columnar.entries() == plain.entries()
    assert columnar.routed.ids == plain.routed.ids


def check(seed: int, size: int, oddity: float, **more: Any) -> int:
    """Routes a few records in both ways; returns how many frames went in columns."""
    random, in_columns = Random(seed), 0
    plain, columnar = twins(**more)
    peers = [client(plain.mesh, node=f"user:{name}") for name in "ab"]
    assert [client(columnar.mesh, node=f"user:{name}") for name in "ab"] == peers
    for number in range(4):
        made = record(random, size, peers, oddity)
        partition = random.randrange(2)
        for expected, found in zip(plain.log(made, partition), columnar.log(made, partition), strict=True):
            compare(expected, found)
            in_columns += found.in_columns
            assert columnar.mesh.state.tally.take() == plain.mesh.state.tally.take()
        assert sorted(map(repr, columnar.mesh.state.table)) == sorted(map(repr, plain.mesh.state.table))
        if number == 2:
            for mesh in (plain.mesh, columnar.mesh):
                mesh.reconfigure(permissions=[{"nodes": ["*"], "publish": {"deny": ["b"]}}], **more)
    return in_columns


@pytest.mark.timeout(3_600 if NIGHTLY else 120)
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**64), st.sampled_from([1, 3, 10, 40, 120]), st.sampled_from([0.0, 0.03, 0.3, 1.0]))
def test_both_ways_make_the_same_of_any_record(seed: int, size: int, oddity: float) -> None:
    check(seed, size, oddity)


@settings(max_examples=max(EXAMPLES // 10, 10), deadline=None)
@given(st.integers(0, 2**64), st.sampled_from([0.0, 0.1]))
def test_both_ways_make_the_same_batches(seed: int, oddity: float) -> None:
    check(seed, 60, oddity, events={"format": "batch"})


def test_records_of_nothing_odd_go_in_columns() -> None:
    assert check(1, 120, 0.0) > 300


def test_a_fault_in_the_fast_pass_leaves_every_frame_to_the_plain_path(caplog: pytest.LogCaptureFixture) -> None:
    _, columnar = twins()
    functions = columnar.mesh._functions
    broken = ColumnarPass(columnar.mesh.state, functions._fanout)
    made = read_columns(record(Random(1), 40, [], 0.0))
    made.sources = made.sources[:1]
    assert broken.read(made, 0, 0) is None
    assert "in the fast pass" in caplog.text


def test_a_fault_half_way_leaves_every_frame_to_the_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CommonRecord, "_write_egress", broken)
    plain, columnar = twins()
    made = record(Random(1), 60, [], 0.0)
    for expected, found in zip(plain.log(made, 0), columnar.log(made, 0), strict=True):
        compare(expected, found)
        assert columnar.mesh.state.tally.take() == plain.mesh.state.tally.take()


def test_a_record_of_few_frames_is_left_to_the_plain_path() -> None:
    assert check(1, FEWEST_FRAMES - 1, 0.0) == 0
    assert check(1, FEWEST_FRAMES, 0.0) > 0


def main(count: int) -> None:
    """Routes a million frames and more: `python -m tests.unit.routing.test_columnar`."""
    random, done, in_columns, began = Random(time.time_ns()), 0, 0, time.time()
    while done < count:
        in_columns += check(random.getrandbits(64), 120, random.choice((0.0, 0.03, 0.3, 1.0)))
        done += 4 * 120
    print(f"{done} frames, {in_columns} in columns, {time.time() - began:.0f} s: no difference")


if __name__ == "__main__":
    main(1_000_000)


@pytest.mark.parametrize("at", [0, -1, -(1 << 63), (1 << 32) * SECOND_US, (1 << 63) - 1])
def test_no_time_of_receipt_ends_the_query_or_hides_a_repeat(at: int) -> None:
    device, builder = FrameSource("emm", "resign", EDGE, EPOCH, peer="192.0.2.7:4000"), ContainerBuilder(EDGE, EPOCH)
    for number in range(8):
        draft = codec.Draft(number.to_bytes(4, "big"), TIMESTAMP, (Field(FieldType.STRING, b"temp.high"),))
        builder.add(device, at, codec.encode(draft, SIGNERS[0]))
    made, (plain, columnar) = builder.build(), twins()
    for passing in (8, 0):
        (expected,), (found,) = plain.log(made, 0), columnar.log(made, 0)
        compare(expected, found)
        assert (len(found.of("events")), found.in_columns) == (passing, 8)

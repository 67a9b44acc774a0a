"""Tests what is kept of a frame that is refused."""

from __future__ import annotations

from gzip import compress

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.emp.codec import encode as encode_emp
from gateway.protocols.emp.extensions import envelope_block
from gateway.protocols.emp.frames import Block, Extension, Message, MessageType, Scheme
from gateway.protocols.yamp.codec import encode as encode_yamp
from gateway.protocols.yamp.frames import Request, UserEvent
from gateway.records.rejected_frame import KEPT_BYTES
from streaming_jobs.spark.kafka_sink import sink_options
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import MeshInALog


@pytest.mark.parametrize(("size", "missing"), [(KEPT_BYTES, None), (KEPT_BYTES + 1, b"1"), (1_000_000, b"995904")])
def test_its_first_bytes_are_kept_and_how_many_are_missing(size: int, missing: bytes | None) -> None:
    mesh = MeshInALog()
    frame = b"\xff" * size
    event_id = mesh.log(client(mesh).source, frame)
    (refused,) = mesh.of("rejected")
    headers = dict(refused.headers)
    assert refused.value == frame[:KEPT_BYTES]
    assert (headers["event_id"].decode(), headers.get("truncated_bytes")) == (event_id, missing)


def test_what_is_no_record_at_all_is_cut_too() -> None:
    mesh = MeshInALog()
    mesh.append(b"x" * 10_000)
    (refused,) = mesh.of("rejected")
    assert len(refused.value or b"") == KEPT_BYTES


TOKEN = b"eyJhbGciOiJFZERTQSJ9"
GZIPPED = Block(Extension.COMPRESSION, bytes([Scheme.GZIP, 0, 0, 0]))
BLOCKS = envelope_block(Envelope(Kind.EVENT, 0, "mesh.login")), GZIPPED
PACKED = encode_emp(Message(MessageType.DATA, compress(TOKEN, mtime=0), BLOCKS))


@pytest.mark.parametrize(
    ("protocol", "frame", "reason"),
    [
        ("yamp", encode_yamp(UserEvent(bytes(16), "mesh.login", b'"' + TOKEN + b'"')), "forbidden"),
        ("yamp", encode_yamp(Request(bytes(16), "mesh/Login", b'"' + TOKEN + b'"')), "forbidden"),
        ("emp", PACKED, "forbidden"),
        ("emm", b"no packet: mesh.login " + TOKEN, "unsupported_version"),
    ],
)
def test_nothing_is_kept_of_a_frame_that_may_hold_a_token(protocol: str, frame: bytes, reason: str) -> None:
    mesh = MeshInALog()
    peer = mesh.open(protocol, facts={"format": "json"})
    mesh.forget_outputs()
    mesh.log(peer.source, frame)
    (refused,) = mesh.of("rejected")
    headers = dict(refused.headers)
    assert (refused.value, headers["truncated_bytes"], headers["reason"]) == (b"", b"%d" % len(frame), reason.encode())
    assert mesh.events() == []


def test_all_that_the_router_writes_is_compressed() -> None:
    assert sink_options(MeshInALog().state.config)["kafka.compression.type"] == "zstd"

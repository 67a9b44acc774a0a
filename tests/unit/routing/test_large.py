"""Records too large for Kafka: one of them would stop the router for good, since it would make it again and again."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocols.emp import codec as emp
from gateway.protocols.emp.extensions import compression_block, request_block
from gateway.protocols.emp.frames import Message, MessageType, RequestMark, Scheme
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.records.cloud_event import Header
from gateway.records.event_records import HEADER_BYTES, RECORD_BYTES
from gateway.records.raw_log.frames import Facts
from streaming_jobs.routing.output_records import OutputRecord, bytes_of
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import MeshInALog, Peer

FRAME_BYTES, MESSAGE_BYTES = 100_000, 200_000


@pytest.fixture
def mesh() -> MeshInALog:
    return MeshInALog(
        settings={"kafka": {"partitions": 2, "message_bytes": MESSAGE_BYTES}, "limits": {"frame_bytes": FRAME_BYTES}}
    )


def publish(mesh: MeshInALog, peer: Peer, body: bytes) -> str:
    mesh.forget_outputs()
    return mesh.log(peer.source, encode(yamp.UserEvent(b"u" * 16, "a.x", body)))


def test_encodings_of_a_large_event_stand_in_as_many_records_as_they_need(mesh: MeshInALog) -> None:
    formats: list[Facts] = [{"format": "json"}, {"format": "msgpack"}]
    peers = [mesh.open("yamp", facts=facts, subscribe=("a.>",)) for facts in formats]
    peers.append(mesh.open("wolpertinger", subscribe=("a.>",)))
    publish(mesh, client(mesh), b'"' + b"x" * (FRAME_BYTES - 100) + b'"')
    assert all(len(mesh.sent_to(peer)) == 1 for peer in peers)
    assert len(mesh.egress()) > 1
    assert all(bytes_of(out) <= MESSAGE_BYTES for out in mesh.written)


def test_a_form_that_no_record_holds_is_undeliverable(mesh: MeshInALog) -> None:
    """Bytes that are no text grow by a third in JSON."""
    peer, other = (mesh.open("yamp", facts={"format": one}, subscribe=("a.>",)) for one in ("json", "msgpack"))
    body = b"\xc6" + (110_000).to_bytes(4, "big") + b"\xff" * 110_000
    publish(mesh, other, body)
    assert not mesh.sent_to(peer)
    (sent,) = mesh.sent_to(other)
    heard = decode(sent.frame)
    assert isinstance(heard, yamp.UserEvent)
    assert heard.body == body
    assert mesh.rejections() == [("deliver", "too_large")]


def test_what_grows_beyond_a_record_when_it_is_opened_is_refused_whole(mesh: MeshInALog) -> None:
    peer = mesh.open("emp")
    mesh.forget_outputs()
    body = gzip.compress(bytes(MESSAGE_BYTES))
    mesh.log(peer.source, emp.encode(Message(MessageType.DATA, body, (compression_block(Scheme.GZIP),))))
    assert mesh.rejections() == [("match", "too_large")]
    assert len(mesh.written) == 1


def test_who_asked_with_what_grows_beyond_a_record_is_told_so(mesh: MeshInALog) -> None:
    server, peer = mesh.open("hsp", serve=("emp.data",)), mesh.open("emp")
    mesh.forget_outputs()
    blocks = (request_block(RequestMark(7, asks=True)), compression_block(Scheme.GZIP))
    asked = Message(MessageType.DATA, gzip.compress(bytes(MESSAGE_BYTES)), blocks)
    mesh.log(peer.source, emp.encode(asked))
    assert not mesh.sent_to(server)
    (answer,) = (emp.decode(group.frame) for group in mesh.sent_to(peer))
    assert answer.blocks == (request_block(RequestMark(7, asks=False)),)
    assert json.loads(answer.body)["code"] == "bad_request"


def test_a_foreign_record_of_any_size_can_be_refused(mesh: MeshInALog) -> None:
    mesh.append(b"?" * MESSAGE_BYTES)
    (refused,) = mesh.of("rejected")
    assert bytes_of(refused) <= MESSAGE_BYTES
    assert mesh.rejections() == [("log", "malformed")]


BYTES = st.binary(max_size=20)


@given(key=BYTES, value=BYTES, headers=st.lists(st.tuples(st.text("abc", max_size=9), BYTES)))
def test_no_record_is_larger_than_it_is_counted(key: bytes, value: bytes, headers: list[Header]) -> None:
    written = sum(len(name) + len(given) + HEADER_BYTES for name, given in headers)
    assert bytes_of(OutputRecord("events", None, key, value, headers)) >= RECORD_BYTES + len(key) + len(value) + written

"""hsp's `ack: delivered`: who publishes is answered when all records with its event have been delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.hsp.codec import decode, encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.records.egress import Confirm, Deliver, Group, RecordConfirmed
from gateway.records.raw_log.control_frames import MESH, DeliveryConfirmed, SessionOpened
from gateway.records.raw_log.control_frames import encode as encode_mesh
from gateway.records.raw_log.frames import FrameSource
from tests.unit.routing.mesh_in_a_log import LISTENERS, MeshInALog, Peer

HSP = {"name": "hsp", "protocol": "hsp", "listen": "tcp://127.0.0.1:5041"}
TYPES = {7: "a.x", 8: "mesh.subscribe"}
ACK, ERROR = encode(Frame(Command.ACK)), encode(Frame(Command.ERROR))


def mesh_that(ack: str, **settings: Any) -> MeshInALog:
    others = [one for one in LISTENERS if one["name"] != "hsp"]
    return MeshInALog(settings={"listeners": [*others, {**HSP, "types": TYPES, "ack": ack}], **settings})


def publish(mesh: MeshInALog, peer: Peer, type_: int = 7, body: bytes = b"1", *, ask: bool = True) -> str:
    mesh.forget_outputs()
    return mesh.log(peer.source, encode(Frame(Command.DATA_ACK if ask else Command.DATA, 5, type_, body)))


def subscriber(mesh: MeshInALog, edge: str = "edge-0") -> None:
    source = FrameSource(MESH, "hsp", edge, 7, 99, "10.0.0.1:9", f"anon:{edge}")
    mesh.log(source, encode_mesh(SessionOpened("hsp", ("a.>",))))


def held(mesh: MeshInALog) -> Deliver:
    (found,) = [record for record in mesh.egress() if record.ticket]
    return found


def refusal(group: Group) -> Any:
    frame = decode(group.frame)
    assert frame.command is Command.ERROR
    return json.loads(frame.payload)["code"]


def test_each_record_with_the_event_says_whom_to_tell_and_the_answer_waits_for_all_of_them() -> None:
    mesh = mesh_that("delivered")
    publisher = mesh.open("hsp")
    for edge in ("edge-0", "edge-1", "edge-2"):
        subscriber(mesh, edge)
    event_id = publish(mesh, publisher)
    records = [record for record in mesh.egress() if record.confirm]
    assert [record.confirm for record in records] == [Confirm("edge-0", event_id)] * 3
    assert [record.position.part for record in records] == [0, 0, 0]  # counted for each edge
    answer = held(mesh)
    assert (answer.ticket, answer.required_confirmations, answer.kind) == (event_id, 3, Kind.RESPONSE)
    assert [(one.frame, one.sessions, one.request) for one in answer.groups] == [(ACK, (publisher.number,), "5")]
    assert refusal(answer.groups_on_failure[0]) == "undeliverable"
    assert (answer.groups_on_failure[0].sessions, answer.groups_on_failure[0].request) == ((publisher.number,), "5")


def test_an_event_that_nobody_wants_is_acknowledged_at_once() -> None:
    mesh = mesh_that("delivered")
    publisher = mesh.open("hsp")
    publish(mesh, publisher)
    (record,) = mesh.egress()
    assert (record.groups[0].frame, record.ticket) == (ACK, "")


def test_what_some_subscriber_can_never_be_told_is_refused_at_once() -> None:
    mesh = mesh_that("delivered")
    publisher = mesh.open("hsp", facts={"envelope": True})
    subscriber(mesh)
    mesh.open("yamp", subscribe=("a.>",), facts={"format": "msgpack"})
    payload = Envelope(Kind.EVENT, 0, "a.y", "application/json").encode() + b"no JSON at all"
    publish(mesh, publisher, ENVELOPE_TYPE, payload)
    answers = [group for group in mesh.sent_to(publisher) if group.request]
    assert [refusal(one) for one in answers] == ["undeliverable"]
    assert not any(record.required_confirmations for record in mesh.egress())


@pytest.mark.parametrize("ack", ["durable", "answered"])
def test_nobody_is_told_where_the_publisher_does_not_wait(ack: str) -> None:
    mesh = mesh_that(ack)
    publisher = mesh.open("hsp")
    subscriber(mesh)
    publish(mesh, publisher)
    assert not any(record.confirm or record.required_confirmations for record in mesh.egress())


def test_data_is_never_acknowledged_so_nobody_waits() -> None:
    mesh = mesh_that("delivered")
    publisher = mesh.open("hsp")
    subscriber(mesh)
    publish(mesh, publisher, ask=False)
    (record,) = mesh.egress()
    assert (record.confirm, record.ticket) == (None, "")


def test_an_enveloped_event_is_awaited_too() -> None:
    mesh = mesh_that("delivered")
    publisher = mesh.open("hsp", facts={"envelope": True})
    subscriber(mesh)
    payload = Envelope(Kind.EVENT, 0, "a.y", "application/json").encode() + b"1"
    publish(mesh, publisher, ENVELOPE_TYPE, payload)
    assert held(mesh).groups[0].frame == ACK


def test_a_publisher_that_may_not_is_told_so() -> None:
    permissions = [{"publish": {"allow": ["b.>"]}}]
    mesh = mesh_that("delivered", permissions=permissions)
    publisher = mesh.open("hsp")
    publish(mesh, publisher)
    (answer,) = mesh.sent_to(publisher)
    assert refusal(answer) == "forbidden"


def test_what_an_edge_has_delivered_is_told_to_the_edge_where_the_answer_is_held() -> None:
    mesh = mesh_that("delivered")
    mesh.log(FrameSource(MESH, "", "edge-2", 9), encode_mesh(DeliveryConfirmed("edge-3", "0-5-1", 2, failed=True)), 1)
    ((edge, told),) = mesh.told()
    assert isinstance(told, RecordConfirmed)
    assert (edge, told.ticket, told.edge, told.part, told.failed) == (3, "0-5-1", "edge-2", 2, True)


@pytest.mark.parametrize("ack", ["durable", "delivered"])
def test_a_subscription_by_a_plain_type_is_acknowledged_when_it_stands_everywhere(ack: str) -> None:
    mesh = mesh_that(ack)
    peer = mesh.open("hsp")
    ticket = publish(mesh, peer, 8, b'{"subject": "a.>"}')
    assert (held(mesh).ticket, held(mesh).required_confirmations, held(mesh).groups[0].frame) == (ticket, 0, ACK)


def test_a_malformed_subscription_by_a_plain_type_is_refused() -> None:
    mesh = mesh_that("durable")
    peer = mesh.open("hsp")
    publish(mesh, peer, 8, b'{"subject": "a..b"}')
    (answer,) = mesh.sent_to(peer)
    assert refusal(answer) == "bad_request"

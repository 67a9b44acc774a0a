"""hsp's `ack: delivered`: who publishes is answered when all records with its event have been delivered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway import egress
from gateway.egress import Confirm, Confirmed, Egress, Group, Position
from gateway.envelope import Envelope
from gateway.event import Kind
from gateway.protocols.hsp.codec import decode, encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.raw_log.frames import Source
from gateway.raw_log.mesh_frames import MESH, DeliveryConfirmed, SessionOpened
from gateway.raw_log.mesh_frames import encode as encode_mesh
from tests.unit.router.mesh_in_a_log import LISTENERS, MeshInALog, Peer

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
    source = Source(MESH, "hsp", edge, 7, 99, "10.0.0.1:9", f"anon:{edge}")
    mesh.log(source, encode_mesh(SessionOpened("hsp", ("a.>",))))


def held(mesh: MeshInALog) -> Egress:
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
    assert len({record.position.part for record in records}) == 3
    answer = held(mesh)
    assert (answer.ticket, answer.needed, answer.kind) == (event_id, 3, Kind.RESPONSE)
    assert [(one.frame, one.sessions, one.request) for one in answer.groups] == [(ACK, (publisher.number,), "5")]
    assert refusal(answer.otherwise[0]) == "undeliverable"
    assert (answer.otherwise[0].sessions, answer.otherwise[0].request) == ((publisher.number,), "5")


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
    assert not any(record.needed for record in mesh.egress())


@pytest.mark.parametrize("ack", ["durable", "answered"])
def test_nobody_is_told_where_the_publisher_does_not_wait(ack: str) -> None:
    mesh = mesh_that(ack)
    publisher = mesh.open("hsp")
    subscriber(mesh)
    publish(mesh, publisher)
    assert not any(record.confirm or record.needed for record in mesh.egress())


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
    mesh.log(Source(MESH, "", "edge-2", 9), encode_mesh(DeliveryConfirmed("edge-3", "0-5-1", 2, failed=True)), 1)
    (out,) = mesh.of("egress")
    (told,) = mesh.egress()
    assert out.partition == 3
    assert (told.confirmed, told.groups) == (Confirmed("0-5-1", 2, failed=True), ())


@pytest.mark.parametrize("ack", ["durable", "delivered"])
def test_a_subscription_by_a_plain_type_is_acknowledged_when_it_stands_everywhere(ack: str) -> None:
    mesh = mesh_that(ack)
    peer = mesh.open("hsp")
    ticket = publish(mesh, peer, 8, b'{"subject": "a.>"}')
    assert (held(mesh).ticket, held(mesh).needed, held(mesh).groups[0].frame) == (ticket, 0, ACK)


def test_a_malformed_subscription_by_a_plain_type_is_refused() -> None:
    mesh = mesh_that("durable")
    peer = mesh.open("hsp")
    publish(mesh, peer, 8, b'{"subject": "a..b"}')
    (answer,) = mesh.sent_to(peer)
    assert refusal(answer) == "bad_request"


@pytest.mark.parametrize(
    "rare",
    [
        {"needed": 2, "ticket": "0-1-0", "otherwise": (Group("hsp", ERROR, (1,), (3,), request="5"),)},
        {"confirm": Confirm("edge-1", "0-1-0")},
        {"confirmed": Confirmed("0-1-0", 4, failed=True), "first_id": "0-0-9"},
    ],
)
def test_a_record_says_all_this_in_its_bytes(rare: dict[str, Any]) -> None:
    plain = Egress(Position(1, 2, 3), 7, Kind.EVENT, "a.x", "hsp", 5, (Group("hsp", ACK),))
    record = replace(plain, **rare)
    assert egress.decode(record.encode()) == record
    assert len(plain.encode()) < len(record.encode())

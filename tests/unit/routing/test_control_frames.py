"""Subscriptions, sessions and refusals, as the row functions see them."""

from __future__ import annotations

import json

import pytest

from gateway.core.event import Kind
from gateway.protocols.wolpertinger.codec import decode as decode_xml
from gateway.protocols.wolpertinger.codec import encode as encode_xml
from gateway.protocols.wolpertinger.frames import Call, RemoteError
from gateway.protocols.yamp import frames as yamp
from gateway.records.egress import Deliver, InterestApplied
from tests.unit.routing.asking import JSON, answers, client, event, put_again, request, subscribe
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog


def test_a_subscription_stands_in_every_partition_before_it_is_acknowledged() -> None:
    mesh = MeshInALog(partitions=3)
    peer = client(mesh)
    ticket = subscribe(mesh, peer, "a.>")
    applied = [one for _, one in mesh.told() if isinstance(one, InterestApplied)]
    assert {one.partition for one in applied if one.ticket == ticket} == {0, 1, 2}
    (held,) = [one for one in mesh.egress() if one.ticket == ticket]
    assert held.groups[0].sessions == (peer.number,)


def test_an_event_goes_to_its_subscribers_and_nobody_else(mesh: MeshInALog) -> None:
    publisher, wanted, other = client(mesh), client(mesh), client(mesh)
    subscribe(mesh, wanted, "a.*")
    subscribe(mesh, other, "b.*")
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    assert len(mesh.sent_to(wanted)) == 1
    assert not mesh.sent_to(other)


def test_overlapping_subscriptions_deliver_once(mesh: MeshInALog) -> None:
    publisher, peer = client(mesh), client(mesh)
    for number, pattern in enumerate(("a.>", "a.*", "a.x", ">")):
        subscribe(mesh, peer, pattern, number + 100)
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    assert len(mesh.sent_to(peer)) == 1


def test_a_session_that_subscribes_to_what_it_publishes_gets_it(mesh: MeshInALog) -> None:
    peer = client(mesh)
    subscribe(mesh, peer, "a.x")
    mesh.forget_outputs()
    mesh.log(peer.source, event("a.x"))
    assert len(mesh.sent_to(peer)) == 1


def test_one_member_of_a_group_gets_each_event(mesh: MeshInALog) -> None:
    publisher, members = client(mesh), [client(mesh) for _ in range(3)]
    for member in members:
        subscribe(mesh, member, "a.>", group="workers")
    mesh.forget_outputs()
    for number in range(60):
        mesh.log(publisher.source, event("a.x", number))
    shares = [len(mesh.sent_to(member)) for member in members]
    assert sum(shares) == 60
    assert min(shares) > 5


@pytest.mark.parametrize("again", [False, True])
def test_what_one_member_of_a_group_may_not_receive_goes_to_one_that_may(again: bool) -> None:
    mesh = MeshInALog(settings={"permissions": [{"nodes": ["guest"], "subscribe": {"deny": ["adm.>"]}}]})
    publisher, guest, member = client(mesh), client(mesh, node="guest"), client(mesh, node="member")
    for one in (guest, member):
        subscribe(mesh, one, ">", group="workers")
    mesh.forget_outputs()
    for number in range(20):
        if again:
            put_again(mesh, publisher, event("adm.x", number), f"9-{number}-0")
        else:
            mesh.log(publisher.source, event("adm.x", number))
    assert (len(mesh.sent_to(guest)), len(mesh.sent_to(member))) == (0, 20)


def test_who_asks_for_everything_beside_a_group_for_the_mesh_s_own_events_gets_them_for_the_group() -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    subscribe(mesh, peer, ">")
    subscribe(mesh, peer, "mesh.session.>", 101, group="watch")
    mesh.forget_outputs()
    client(mesh)
    assert len(mesh.sent_to(peer)) == 1


@pytest.mark.parametrize(("said", "taken_back"), [("a.x", "a/x"), ("a/x", "a.x"), ("a/x", "a/x")])
@pytest.mark.parametrize("verb", ["subscribe", "serve"])
def test_both_spellings_of_a_pattern_are_one_interest(verb: str, said: str, taken_back: str, mesh: MeshInALog) -> None:
    peer = client(mesh)
    for number, pattern in enumerate((said, taken_back)):
        mesh.log(peer.source, request(f"mesh.{verb}", {"subject": pattern}, number))
    assert [one.pattern for one in mesh.state.table] == ["a.x"]
    mesh.log(peer.source, request(f"mesh.un{verb}", {"subject": taken_back}, 9))
    assert len(mesh.state.table) == 0


def test_what_a_listener_subscribes_its_sessions_to_can_be_taken_back_in_either_spelling(mesh: MeshInALog) -> None:
    peer = client(mesh, subscribe=("a/x",))
    mesh.log(peer.source, request("mesh.unsubscribe", {"subject": "a.x"}))
    assert len(mesh.state.table) == 0


def test_a_session_that_ends_takes_its_subscriptions_along_even_those_still_on_their_way(mesh: MeshInALog) -> None:
    publisher, peer = client(mesh), client(mesh, subscribe=("a.>",))
    subscribe(mesh, peer, "b.>")
    mesh.close(peer)
    assert len(mesh.state.table) == 0
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    mesh.log(publisher.source, event("b.x", 2))
    assert not mesh.sent_to(peer)


def test_a_new_epoch_of_an_edge_ends_what_its_sessions_wanted(mesh: MeshInALog) -> None:
    peer = client(mesh)
    subscribe(mesh, peer, "a.>")
    mesh.forget_outputs()
    mesh.restart_edge(8)
    assert len(mesh.state.table) == 0
    ended = [out for out in mesh.of("interests") if out.value is None]
    assert len(ended) == 1


def test_a_node_that_outlives_its_sessions_is_owed_what_comes_meanwhile_and_found_in_its_next_session() -> None:
    mesh = MeshInALog()
    publisher = client(mesh)
    first = mesh.open("hsp", facts={"redeliver_seconds": 300}, node="plant", subscribe=("a.>",))
    mesh.close(first)
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    (sent,) = [group for record in mesh.egress() for group in record.groups]
    assert (sent.sessions, sent.owed) == ((), ("node:plant@hsp",))
    second = mesh.open("hsp", facts={"redeliver_seconds": 300}, node="plant")
    (kept,) = mesh.state.table.of("node:plant@hsp")
    assert (kept.session, kept.expires_at) == (second.number, None)


def test_an_edge_that_was_killed_leaves_durable_nodes_waiting(mesh: MeshInALog) -> None:
    mesh.open("hsp", facts={"redeliver_seconds": 300}, node="plant", subscribe=("a.>",))
    mesh.restart_edge(8)
    (kept,) = mesh.state.table.of("node:plant@hsp")
    assert kept.expires_at is not None


def test_a_request_that_nobody_serves_is_told_so(mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("nobody.here", 1))
    ((_, said),) = answers(mesh, peer)
    assert said["code"] == "no_responder"
    assert mesh.rejections() == [("match", "no_responder")]
    assert not mesh.events()


@pytest.mark.parametrize(
    ("served", "code"),
    [(["Calc.Sum"], 303), (["*.Sum"], 303), (["Other.Sum"], 304), (["Calc"], 304), ([], 304)],
)
def test_a_method_that_nobody_serves_is_told_from_a_component_of_which_nobody_serves_any(
    served: list[str], code: int
) -> None:
    mesh = MeshInALog()
    caller, _ = mesh.open("wolpertinger"), client(mesh, serve=tuple(served))
    mesh.forget_outputs()
    call_id = "f5afec97-5839-4666-b8d3-8c108b241720"
    mesh.log(caller.source, encode_xml(Call("Calc", call_id, "Difference")))
    (answer,) = mesh.sent_to(caller)
    assert decode_xml(answer.frame) == RemoteError("Calc", code, call_id)


def test_a_session_has_only_so_many_subscriptions() -> None:
    mesh = MeshInALog(settings={"limits": {"subscriptions_per_session": 3}})
    peer = client(mesh)
    for number in range(4):
        subscribe(mesh, peer, f"a.{number}", number + 100)
    said = [value for kind, value in answers(mesh, peer) if kind == yamp.ResponseType.ERROR]
    assert [one["code"] for one in said] == ["bad_request"]
    assert len(mesh.state.table) == 3


def test_who_subscribes_to_everything_is_spared_the_mesh_s_own_events(mesh: MeshInALog) -> None:
    everything, presence = client(mesh), client(mesh)
    subscribe(mesh, everything, ">")
    subscribe(mesh, presence, "mesh.session.>")
    mesh.forget_outputs()
    client(mesh)
    assert not mesh.sent_to(everything)
    assert len(mesh.sent_to(presence)) == 1


def test_mesh_alone_is_a_subject_like_any_other(mesh: MeshInALog) -> None:
    peer = client(mesh, subscribe=("*",))
    mesh.log(peer.source, event("mesh"))
    assert (len(mesh.sent_to(peer)), mesh.rejections()) == (1, [])


def test_each_egress_record_of_an_edge_has_a_position_of_its_own_in_order(mesh: MeshInALog) -> None:
    peer = client(mesh)
    subscribe(mesh, peer, "a.>")
    for number in range(5):
        mesh.log(peer.source, event("a.x", number))
    per_partition: dict[int, list[Deliver]] = {}
    for record in mesh.egress():
        per_partition.setdefault(record.position.partition, []).append(record)
    for records in per_partition.values():
        positions = [one.position for one in records]
        assert positions == sorted(set(positions))


def test_a_frame_of_no_known_protocol_is_kept_with_its_reason() -> None:
    from dataclasses import replace

    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(replace(peer.source, protocol="smoke-signals"), b"puff")
    assert mesh.rejections() == [("decode", "unknown_type")]


def test_one_event_to_many_subscribers_is_one_encoding_in_one_record(mesh: MeshInALog) -> None:
    publisher = client(mesh)
    receivers = [client(mesh, subscribe=("a.>",)) for _ in range(500)]
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    (record,) = mesh.egress()
    assert record.kind is Kind.EVENT
    (group,) = record.groups
    assert set(group.sessions) == {one.number for one in receivers}


def test_a_hello_sent_again_from_elsewhere_does_not_move_the_node() -> None:
    """Spark drops the repeat's outputs; nothing of it may be left behind in the worker either."""
    from gateway.protocols.emm import codec
    from gateway.protocols.emm.frames import EventType, Field, FieldType
    from gateway.protocols.emm.signing import Signer
    from gateway.records.raw_log.frames import FrameSource
    from tests.unit.routing.mesh_in_a_log import GATEWAY

    def packet(kind: EventType, message_id: bytes, *fields: Field) -> bytes:
        draft = codec.Draft(message_id=message_id, timestamp=NOW, fields=fields, event_type=kind)
        return codec.encode(draft, Signer.of(GATEWAY))

    mesh = MeshInALog()
    hello = packet(EventType.HELLO, b"helo", Field(FieldType.BINARY, b'{"subscribe":["a.>"]}'))
    mesh.log(FrameSource("emm", "emm", EDGE, EPOCH, 0, "10.0.0.9:1"), hello)
    mesh.withhold_from_raw = True
    mesh.log(FrameSource("emm", "emm", EDGE, EPOCH, 0, "6.6.6.6:666"), hello)
    mesh.withhold_from_raw = False
    mesh.forget_outputs()
    stamp = Field(FieldType.TIMESTAMP, (NOW + 80).to_bytes(8, "big"))
    mesh.log(FrameSource("emm", "emm", EDGE, EPOCH, 0, "10.0.0.9:1"), packet(EventType.HEARTBEAT, b"beat", stamp))
    values = [json.loads(out.value) for out in mesh.of("interests") if out.value]
    assert {one["address"] for one in values} <= {"10.0.0.9:1"}


@pytest.mark.parametrize("protocol", ["emp", "hsp", "yamp"])
def test_two_meshes_linked_in_a_ring_do_not_send_an_event_round(protocol: str) -> None:
    """Each dials the other and is subscribed to everything of it."""
    from gateway.auth.keyring import GatewayIdentity

    facts: dict[str, str | bool] = dict(JSON) if protocol == "yamp" else {"envelope": True}
    link: dict[str, str | bool] = {**facts, "link": True}
    here, there = MeshInALog(), MeshInALog()
    there.state.use_keys(there.state.env.keys, GatewayIdentity(b"\x0c" * 16, b"\0\0\0\xff", b"\x0d" * 32))
    to_there, to_here = (mesh.open(protocol, facts=link, subscribe=(">",)) for mesh in (here, there))
    from_here, from_there = there.open(protocol, facts=facts), here.open(protocol, facts=facts)
    publisher, listening = client(here), client(there)
    subscribe(there, listening, "a.>")
    here.log(publisher.source, event("a.x"))
    (crossing,) = here.sent_to(to_there)
    there.log(from_here.source, crossing.frame)
    assert len([one for one in there.sent_to(listening) if b"a.x" in one.frame]) == 1
    (back,) = there.sent_to(to_here)
    before = len(here.events())
    here.log(from_there.source, back.frame)
    assert here.rejections() == [("match", "forbidden")]
    assert len(here.events()) == before

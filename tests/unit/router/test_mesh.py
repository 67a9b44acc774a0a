"""Subscriptions, sessions and refusals, as the row functions see them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway import content
from gateway.egress import Egress
from gateway.envelope import Envelope
from gateway.event import Kind
from gateway.protocols.hsp import codec as hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.wolpertinger.codec import decode as decode_xml
from gateway.protocols.wolpertinger.codec import encode as encode_xml
from gateway.protocols.wolpertinger.frames import Call, RemoteError
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.raw_log.container import ContainerBuilder
from gateway.raw_log.frames import Again, RawFrame, ReplyAddress
from tests.unit.router.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog, Peer

JSON = {"format": "json"}


def client(mesh: MeshInALog, **opened: Any) -> Peer:
    return mesh.open("yamp", facts=JSON, **opened)


def event(subject: str, number: int = 1) -> bytes:
    return encode(yamp.UserEvent(number.to_bytes(16, "big"), subject, b"1"))


def request(subject: str, body: object, number: int = 100) -> bytes:
    return encode(yamp.Request(number.to_bytes(16, "big"), subject, content.to_json(body)))


def subscribe(mesh: MeshInALog, peer: Peer, pattern: str, number: int = 100, **more: str) -> str:
    return mesh.log(peer.source, request("mesh.subscribe", {"subject": pattern, **more}, number))


def put_again(mesh: MeshInALog, peer: Peer, frame: bytes, event_id: str) -> None:
    builder, at = ContainerBuilder(EDGE, EPOCH), NOW * 1_000_000
    builder.add_again(RawFrame(frame, peer.source, at), Again(event_id, at))
    mesh.append(builder.build())


def answers(mesh: MeshInALog, peer: Peer) -> list[Any]:
    """(type, value) of each response that went to the peer."""
    heard = [decode(group.frame) for group in mesh.sent_to(peer)]
    return [(one.outcome, json.loads(one.body)) for one in heard if isinstance(one, yamp.Response)]


def test_a_subscription_stands_in_every_partition_before_it_is_acknowledged() -> None:
    mesh = MeshInALog(partitions=3)
    peer = client(mesh)
    ticket = subscribe(mesh, peer, "a.>")
    records = mesh.egress()
    assert {one.applied.partition for one in records if one.applied and one.applied.ticket == ticket} == {0, 1, 2}
    (held,) = [one for one in records if one.ticket == ticket]
    assert held.groups[0].sessions == (peer.number,)


def test_an_event_goes_to_its_subscribers_and_nobody_else() -> None:
    mesh = MeshInALog()
    publisher, wanted, other = client(mesh), client(mesh), client(mesh)
    subscribe(mesh, wanted, "a.*")
    subscribe(mesh, other, "b.*")
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    assert len(mesh.sent_to(wanted)) == 1
    assert not mesh.sent_to(other)


def test_overlapping_subscriptions_deliver_once() -> None:
    mesh = MeshInALog()
    publisher, peer = client(mesh), client(mesh)
    for number, pattern in enumerate(("a.>", "a.*", "a.x", ">")):
        subscribe(mesh, peer, pattern, number + 100)
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    assert len(mesh.sent_to(peer)) == 1


def test_a_session_that_subscribes_to_what_it_publishes_gets_it() -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    subscribe(mesh, peer, "a.x")
    mesh.forget_outputs()
    mesh.log(peer.source, event("a.x"))
    assert len(mesh.sent_to(peer)) == 1


def test_one_member_of_a_group_gets_each_event() -> None:
    mesh = MeshInALog()
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
def test_both_spellings_of_a_pattern_are_one_interest(verb: str, said: str, taken_back: str) -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    for number, pattern in enumerate((said, taken_back)):
        mesh.log(peer.source, request(f"mesh.{verb}", {"subject": pattern}, number))
    assert [one.pattern for one in mesh.state.table] == ["a.x"]
    mesh.log(peer.source, request(f"mesh.un{verb}", {"subject": taken_back}, 9))
    assert len(mesh.state.table) == 0


def test_what_a_listener_subscribes_its_sessions_to_can_be_taken_back_in_either_spelling() -> None:
    mesh = MeshInALog()
    peer = client(mesh, subscribe=("a/x",))
    mesh.log(peer.source, request("mesh.unsubscribe", {"subject": "a.x"}))
    assert len(mesh.state.table) == 0


def test_a_session_that_ends_takes_its_subscriptions_along_even_those_still_on_their_way() -> None:
    mesh = MeshInALog()
    publisher, peer = client(mesh), client(mesh, subscribe=("a.>",))
    subscribe(mesh, peer, "b.>")
    mesh.close(peer)
    assert len(mesh.state.table) == 0
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    mesh.log(publisher.source, event("b.x", 2))
    assert not mesh.sent_to(peer)


def test_a_new_epoch_of_an_edge_ends_what_its_sessions_wanted() -> None:
    mesh = MeshInALog()
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


def test_an_edge_that_was_killed_leaves_durable_nodes_waiting() -> None:
    mesh = MeshInALog()
    mesh.open("hsp", facts={"redeliver_seconds": 300}, node="plant", subscribe=("a.>",))
    mesh.restart_edge(8)
    (kept,) = mesh.state.table.of("node:plant@hsp")
    assert kept.expires_at is not None


MALFORMED: list[object] = [{}, {"subject": ""}, {"subject": 7}, {"subject": "a..b"}, {"subject": "a.>.b"}, [], "x"]


NO_GROUPS: list[object] = [1, 0, False, [], {}]


@pytest.mark.parametrize("body", [*MALFORMED, *({"subject": "a", "group": group} for group in NO_GROUPS)])
def test_a_malformed_control_message_is_answered_with_bad_request(body: object) -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("mesh.subscribe", body))
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "bad_request")
    assert len(mesh.rejections()) == 1


@pytest.mark.parametrize("body", [b'{"subject":"\\ud800"}', b'{"subject":"a","group":"\\udfff"}'])
def test_half_a_surrogate_pair_names_nothing(body: bytes) -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, encode(yamp.Request(b"u" * 16, "mesh.subscribe", body)))
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "bad_request")
    assert mesh.rejections() == [("match", "malformed")]


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/octet-stream", "application/json"])
def test_what_is_asked_of_the_mesh_is_json_whatever_its_type_says(content_type: str) -> None:
    mesh = MeshInALog()
    peer = mesh.open("hsp")
    asked = Envelope(Kind.EVENT, 0, "mesh.subscribe", content_type).encode() + b'{"subject":"temp.*"}'
    mesh.log(peer.source, hsp.encode(Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, asked)))
    assert mesh.rejections() == []
    assert [one.pattern for one in mesh.state.table] == ["temp.*"]


def test_a_control_message_that_is_cancelled_was_none_the_worse_for_it() -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    subscribe(mesh, peer, "a.>", number=7)
    asked = (7).to_bytes(16, "big")
    mesh.log(peer.source, encode(yamp.Cancel((8).to_bytes(16, "big"), "mesh.subscribe", asked)))
    mesh.log(peer.source, event("a.b"))
    assert mesh.rejections() == []
    assert any(isinstance(decode(group.frame), yamp.UserEvent) for group in mesh.sent_to(peer))


@pytest.mark.parametrize("subject", ["mesh.session.opened", "MESH.x", "Mesh/x"])
def test_nobody_but_the_mesh_publishes_under_mesh(subject: str) -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, event(subject))
    mesh.log(peer.source, request(subject, 1))
    assert mesh.rejections() == [("match", "forbidden")] * 2
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "forbidden")


def test_a_request_that_nobody_serves_is_told_so() -> None:
    mesh = MeshInALog()
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


def test_permissions_hold_for_publishing_subscribing_and_serving() -> None:
    rule = {
        "nodes": ["*"],
        "publish": {"deny": ["secret.>"]},
        "subscribe": {"deny": ["admin.>"]},
        "serve": {"allow": []},
    }
    mesh = MeshInALog(settings={"permissions": [rule]})
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, event("secret.x"))
    subscribe(mesh, peer, "admin.x", 101)
    mesh.log(peer.source, request("mesh.serve", {"subject": "a.b"}, 102))
    assert mesh.rejections() == [("match", "forbidden")] * 3
    assert [said["code"] for _, said in answers(mesh, peer)] == ["forbidden"] * 2


def test_a_server_that_a_reload_denies_is_asked_no_more_and_still_hears_of_cancels() -> None:
    mesh = MeshInALog()
    asking, denied, other = client(mesh), client(mesh, node="denied"), client(mesh, node="other")
    mesh.log(denied.source, request("mesh.serve", {"subject": "sum"}, 1))
    mesh.forget_outputs()
    mesh.log(asking.source, request("sum", 1, 2))
    assert len(mesh.sent_to(denied)) == 1
    mesh.reconfigure(permissions=[{"nodes": ["denied"], "serve": {"allow": []}}])
    mesh.forget_outputs()
    mesh.log(asking.source, request("sum", 1, 3))
    assert [said["code"] for _, said in answers(mesh, asking)] == ["no_responder"]
    mesh.log(other.source, request("mesh.serve", {"subject": "sum"}, 1))
    mesh.forget_outputs()
    for number in range(20):
        mesh.log(asking.source, request("sum", 1, 10 + number))
    assert (len(mesh.sent_to(denied)), len(mesh.sent_to(other))) == (0, 20)
    mesh.log(asking.source, encode(yamp.Cancel((40).to_bytes(16, "big"), "sum", (2).to_bytes(16, "big"))))
    (heard,) = [decode(group.frame) for group in mesh.sent_to(denied)]
    assert isinstance(heard, yamp.Cancel)


GUESTS = {"nodes": ["anon:*"], "subscribe": {"deny": ["secret.>"]}}
USERS = {"nodes": ["user:*"], "subscribe": {"deny": ["guests.>"]}, "serve": {"allow": ["users.>"]}}


def test_who_proves_who_it_is_gets_what_it_subscribed_to_before_as_who_it_is() -> None:
    mesh = MeshInALog(settings={"permissions": [GUESTS, USERS]})
    publisher, peer = client(mesh), client(mesh)
    subscribe(mesh, peer, ">")
    subscribe(mesh, peer, "orders.>", 101, group="workers")
    peer = mesh.identify(peer, "user:ann")
    mesh.forget_outputs()
    mesh.log(publisher.source, event("secret.x", 1))
    mesh.log(publisher.source, event("guests.x", 2))
    heard = [decode(group.frame) for group in mesh.sent_to(peer)]
    assert [one.uri for one in heard if isinstance(one, yamp.UserEvent)] == ["secret.x"]
    assert {one.group for one in mesh.state.table.of(peer.source.session_id)} == {"", "workers"}
    assert {one.node for one in mesh.state.table} == {"user:ann"}


def test_what_is_not_for_who_a_peer_proves_to_be_is_dropped() -> None:
    mesh = MeshInALog(settings={"permissions": [GUESTS, USERS]})
    peer = client(mesh, subscribe=("guests.now", "all.>"))
    subscribe(mesh, peer, "guests.x")
    mesh.log(peer.source, request("mesh.serve", {"subject": "a.b"}, 102))
    mesh.forget_outputs()
    peer = mesh.identify(peer, "user:ann", subscribe=("guests.now", "all.>"))
    assert [one.pattern for one in mesh.state.table.of(peer.source.session_id)] == ["all.>"]
    assert mesh.rejections() == [("match", "forbidden")] * 3
    kept = {out.key: out.value is not None for out in mesh.of("interests")}
    assert sorted(kept.values()) == [False, False, False, True]


def test_what_is_still_on_its_way_through_the_log_changes_hands_too() -> None:
    mesh = MeshInALog(settings={"permissions": [GUESTS, USERS]}, withhold_from_raw=True)
    peer = client(mesh)
    subscribe(mesh, peer, "orders.>")
    mesh.forget_outputs()
    mesh.identify(peer, "user:ann")
    assert b"user:ann" in (mesh.of("interests")[-1].value or b"")


def test_who_subscribes_to_everything_is_spared_the_mesh_s_own_events() -> None:
    mesh = MeshInALog()
    everything, presence = client(mesh), client(mesh)
    subscribe(mesh, everything, ">")
    subscribe(mesh, presence, "mesh.session.>")
    mesh.forget_outputs()
    client(mesh)
    assert not mesh.sent_to(everything)
    assert len(mesh.sent_to(presence)) == 1


def test_mesh_alone_is_a_subject_like_any_other() -> None:
    mesh = MeshInALog()
    peer = client(mesh, subscribe=("*",))
    mesh.log(peer.source, event("mesh"))
    assert (len(mesh.sent_to(peer)), mesh.rejections()) == (1, [])


@pytest.mark.parametrize(
    "body", [{"n": 1}, [1.5, None, "é"], {"$base64": "AP8="}, {"deep": [{"$base64": "AP8="}]}, {"$base64": "no base64"}]
)
def test_a_ping_brings_back_its_body_and_when_it_was_here(body: object) -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("mesh.ping", body))
    ((kind, said),) = answers(mesh, peer)
    assert kind is yamp.ResponseType.DONE
    assert said == {"body": body, "received_at": NOW * 1_000_000, "routed_at": mesh.state.now_us()}


@pytest.mark.parametrize(("sent", "said"), [(b"\0\xff", {"$base64": "AP8="}), (b"text", "text"), (b"", None)])
def test_a_ping_brings_back_bytes_of_no_type(sent: bytes, said: object) -> None:
    mesh = MeshInALog()
    peer = mesh.open("hsp", facts={"envelope": True})
    asked = Envelope(Kind.REQUEST, 7, "mesh.ping").encode() + sent
    mesh.log(peer.source, hsp.encode(Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, asked)))
    (answer,) = mesh.sent_to(peer)
    assert json.loads(answer.frame[answer.frame.index(b'{"body"') : answer.frame.rindex(b"}") + 1])["body"] == said


def heartbeat(mesh: MeshInALog, server: Peer, asked: list[Any]) -> None:
    replies = tuple(ReplyAddress.unpack(one.reply) for one in asked)
    mesh.log(
        server.source, encode_xml(Call("Core", "00000000-0000-4000-8000-000000000000", "Heartbeat")), replies=replies
    )


def test_a_sign_of_life_tells_each_request_of_itself_in_a_frame_of_its_own() -> None:
    mesh = MeshInALog()
    asker, server = client(mesh), mesh.open("wolpertinger", serve=("Calc.>",))
    mesh.forget_outputs()
    for number, subject in enumerate(("Calc.a", "Calc.b"), 1):
        asked = yamp.Request(number.to_bytes(16, "big"), subject, b"[]", progressive=True)
        mesh.log(asker.source, encode(asked))
    heartbeat(mesh, server, mesh.sent_to(server))
    heard = [decode(group.frame) for group in mesh.sent_to(asker)]
    assert [(one.uri, one.request_uid[-1], one.outcome) for one in heard if isinstance(one, yamp.Response)] == [
        ("Calc.a", 1, yamp.ResponseType.PROGRESS),
        ("Calc.b", 2, yamp.ResponseType.PROGRESS),
    ]
    assert len({one.uid for one in heard if isinstance(one, yamp.Response)}) == 2


def test_progress_that_has_no_form_here_still_shows_that_the_server_is_at_work() -> None:
    mesh = MeshInALog()
    asker, server = mesh.open("yamp", facts={"format": "msgpack"}), client(mesh, serve=("sum",))
    mesh.forget_outputs()
    mesh.log(asker.source, encode(yamp.Request(b"r" * 16, "sum", content.to_msgpack([1]), progressive=True)))
    (asked,) = mesh.sent_to(server)
    progress = yamp.Response(b"p" * 16, "sum", b"r" * 16, yamp.ResponseType.PROGRESS, b'{"eta": 18446744073709551616}')
    mesh.log(server.source, encode(progress), replies=(ReplyAddress.unpack(asked.reply),))
    (group,) = mesh.sent_to(asker)
    assert (group.frame, group.request) == (b"", (b"r" * 16).hex())
    assert [record.kind for record in mesh.egress()][-1] is Kind.PROGRESS
    assert mesh.rejections() == [("deliver", "untranslatable")]


def test_each_egress_record_of_an_edge_has_a_position_of_its_own_in_order() -> None:
    mesh = MeshInALog()
    peer = client(mesh)
    subscribe(mesh, peer, "a.>")
    for number in range(5):
        mesh.log(peer.source, event("a.x", number))
    per_partition: dict[int, list[Egress]] = {}
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


def test_one_event_to_many_subscribers_is_one_encoding_in_one_record() -> None:
    mesh = MeshInALog()
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
    from gateway.raw_log.frames import Source
    from tests.unit.router.mesh_in_a_log import EDGE, EPOCH, GATEWAY, NOW

    def packet(kind: EventType, message_id: bytes, *fields: Field) -> bytes:
        draft = codec.Draft(message_id=message_id, timestamp=NOW, fields=fields, event_type=kind)
        return codec.encode(draft, Signer.of(GATEWAY))

    mesh = MeshInALog()
    hello = packet(EventType.HELLO, b"helo", Field(FieldType.BINARY, b'{"subscribe":["a.>"]}'))
    mesh.log(Source("emm", "emm", EDGE, EPOCH, 0, "10.0.0.9:1"), hello)
    mesh.withhold_from_raw = True
    mesh.log(Source("emm", "emm", EDGE, EPOCH, 0, "6.6.6.6:666"), hello)
    mesh.withhold_from_raw = False
    mesh.forget_outputs()
    stamp = Field(FieldType.TIMESTAMP, (NOW + 80).to_bytes(8, "big"))
    mesh.log(Source("emm", "emm", EDGE, EPOCH, 0, "10.0.0.9:1"), packet(EventType.HEARTBEAT, b"beat", stamp))
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

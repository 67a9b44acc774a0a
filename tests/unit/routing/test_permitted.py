"""Tests permissions as the row functions see them: also after a reload, and after a login."""

from __future__ import annotations

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.emp.codec import encode as encode_emp
from gateway.protocols.emp.extensions import envelope_block
from gateway.protocols.emp.frames import Message, MessageType
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from tests.unit.routing.asking import answers, client, event, request, subscribe
from tests.unit.routing.mesh_in_a_log import MeshInALog


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


NOTHING: dict[str, dict[str, list[str]]] = {verb: {"allow": []} for verb in ("publish", "subscribe", "serve")}
ALL_DENIED: dict[str, dict[str, list[str]]] = {"publish": {"deny": [">"]}}
SOMETHING: list[dict[str, dict[str, list[str]]]] = [{verb: {"allow": ["a"]}} for verb in NOTHING]


@pytest.mark.parametrize("rule", [NOTHING, NOTHING | ALL_DENIED])
def test_a_stranger_who_may_do_nothing_is_not_even_answered_a_ping(rule: dict[str, object]) -> None:
    mesh = MeshInALog(settings={"permissions": [{"nodes": ["anon:*"], **rule}]})
    stranger, known = client(mesh), client(mesh, node="known")
    mesh.forget_outputs()
    mesh.log(stranger.source, request("mesh.ping", 1, 1))
    mesh.log(stranger.source, event("mesh.ping"))
    mesh.log(known.source, request("mesh.ping", 1, 2))
    assert [said.get("code") for _, said in answers(mesh, stranger)] == ["forbidden"]
    assert [said["body"] for _, said in answers(mesh, known)] == [1]
    assert mesh.rejections() == [("match", "forbidden")] * 2


@pytest.mark.parametrize("grant", SOMETHING)
def test_whoever_may_do_anything_is_answered_a_ping(grant: dict[str, object]) -> None:
    mesh = MeshInALog(settings={"permissions": [{"nodes": ["anon:*"], **NOTHING, **grant}]})
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("mesh.ping", 1, 1))
    assert [said["body"] for _, said in answers(mesh, peer)] == [1]


@pytest.mark.parametrize("subject", ["mesh.session.closed", "MESH/session.closed", "secret.key"])
def test_a_cancel_needs_the_permission_that_its_request_needs(subject: str) -> None:
    mesh = MeshInALog(settings={"permissions": [{"nodes": ["anon:*"], "publish": {"allow": ["public.>"]}}]})
    serving, peer = client(mesh, node="server"), mesh.open("emp", facts={"envelope": True})
    mesh.log(serving.source, request("mesh.serve", {"subject": "secret.>"}, 1))
    mesh.forget_outputs()
    forged = Message(MessageType.DATA, b"forged", (envelope_block(Envelope(Kind.CANCEL, 9, subject)),))
    mesh.log(peer.source, encode_emp(forged))
    assert (mesh.events(), mesh.egress()) == ([], [])
    assert mesh.rejections() == [("match", "forbidden")]


def test_a_server_that_a_reload_denies_is_asked_no_more_and_still_hears_of_cancels(mesh: MeshInALog) -> None:
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

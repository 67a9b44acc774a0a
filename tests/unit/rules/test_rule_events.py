"""Tests the events that the router makes of a rule's findings, and what rules need of other events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core import content
from gateway.core.event import Kind
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, RuleEvent
from gateway.records.raw_log.frames import FrameSource, ReplyAddress
from streaming_jobs.routing.rule_event import MAX_HOPS
from tests.unit.routing.mesh_in_a_log import GATEWAY, MeshInALog, Peer

JSON = {"format": "json"}
RULES = FrameSource(MESH, "", "rules", 0)
FOUND = RuleEvent("hot", "token", "alarm.temp", '{"celsius":81}', content_type="application/json", origin="0-3-0")


@pytest.fixture
def mesh() -> MeshInALog:
    return MeshInALog(partitions=1)


def log(mesh: MeshInALog, found: RuleEvent) -> str:
    return mesh.log(RULES, control_frames.encode(found))


def test_what_a_rule_found_is_an_event_that_says_where_it_comes_from(mesh: MeshInALog) -> None:
    event_id = log(mesh, FOUND)
    (event,) = mesh.events()
    assert (event.id, event.kind, event.subject) == (event_id, Kind.EVENT, "alarm.temp")
    assert (event.protocol, event.node) == ("mesh", "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a")
    assert dict(event.headers) == {"rule": "hot", "origin": "0-3-0", "hops": "1"}
    assert (event.body, event.content_type) == (b'{"celsius":81}', "application/json")


def test_it_goes_to_who_subscribed(mesh: MeshInALog) -> None:
    peer = mesh.open("yamp", facts=JSON, subscribe=("alarm.>",))
    log(mesh, FOUND)
    (group,) = mesh.sent_to(peer)
    frame = decode(group.frame)
    assert isinstance(frame, yamp.UserEvent)
    assert frame.uri == "alarm.temp"


def test_what_is_found_again_after_a_crash_is_a_repeat(mesh: MeshInALog) -> None:
    mesh.knows_ids = True
    for token in ("one", "one", "another"):
        log(mesh, replace(FOUND, token=token))
    assert len(mesh.events()) == 2


def test_a_body_may_be_any_bytes(mesh: MeshInALog) -> None:
    log(mesh, replace(FOUND, body="/wA=", encoding="base64"))
    assert mesh.events()[0].body == b"\xff\x00"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (replace(FOUND, subject=""), "missing_field"),
        (replace(FOUND, subject="mesh.session.closed"), "forbidden"),
        (replace(FOUND, subject="MESH/subscribe"), "forbidden"),
        (replace(FOUND, hops=0), "forbidden"),
        (replace(FOUND, hops=MAX_HOPS + 1), "forbidden"),
        (replace(FOUND, body="?", encoding="base64"), "bad_encoding"),
    ],
)
def test_what_no_rule_may_say_is_refused_and_kept(mesh: MeshInALog, found: RuleEvent, reason: str) -> None:
    log(mesh, found)
    assert mesh.rejections() == [("match", reason)]
    assert not mesh.events()


def test_as_many_rules_in_a_row_as_may_be_are_no_loop(mesh: MeshInALog) -> None:
    log(mesh, replace(FOUND, hops=MAX_HOPS))
    assert mesh.events()[0].headers["hops"] == str(MAX_HOPS)


def test_without_keys_of_its_own_the_mesh_has_no_node(mesh: MeshInALog) -> None:
    mesh.state.use_keys(mesh.state.env.keys, None)
    log(mesh, FOUND)
    assert mesh.events()[0].node == ""
    assert GATEWAY.node


def asks(mesh: MeshInALog, peer: Peer, subject: str, number: int) -> None:
    uid = number.to_bytes(16, "big")
    mesh.log(peer.source, encode(yamp.Request(uid, subject, content.to_json(1))))


def test_a_recorded_answer_names_the_request_in_the_words_of_who_asked(mesh: MeshInALog) -> None:
    asker, server = mesh.open("yamp", facts=JSON), mesh.open("yamp", facts=JSON, serve=("sum",))
    asks(mesh, asker, "sum", 77)
    (asked,) = [group for group in mesh.sent_to(server) if group.reply]
    response = yamp.Response((5).to_bytes(16, "big"), "sum", (77).to_bytes(16, "big"), body=b"2")
    mesh.log(server.source, encode(response), replies=(ReplyAddress.unpack(asked.reply),))
    (question,) = [one for one in mesh.events() if one.kind is Kind.REQUEST]
    (answer,) = [one for one in mesh.events() if one.kind is Kind.RESPONSE]
    assert (answer.headers["request-session"], answer.headers["request-id"]) == (question.session, question.message_id)

"""Tests what peers ask of the mesh itself, and answers on their way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core import content
from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.hsp import codec as hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.wolpertinger.codec import encode as encode_xml
from gateway.protocols.wolpertinger.frames import Call
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.routing.asking import answers, client, event, request, subscribe
from tests.unit.routing.mesh_in_a_log import NOW, MeshInALog, Peer

MALFORMED: list[object] = [{}, {"subject": ""}, {"subject": 7}, {"subject": "a..b"}, {"subject": "a.>.b"}, [], "x"]


NO_GROUPS: list[object] = [1, 0, False, [], {}]


@pytest.mark.parametrize("body", [*MALFORMED, *({"subject": "a", "group": group} for group in NO_GROUPS)])
def test_a_malformed_control_message_is_answered_with_bad_request(body: object, mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("mesh.subscribe", body))
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "bad_request")
    assert len(mesh.rejections()) == 1


@pytest.mark.parametrize("body", [b'{"subject":"\\ud800"}', b'{"subject":"a","group":"\\udfff"}'])
def test_half_a_surrogate_pair_names_nothing(body: bytes, mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, encode(yamp.Request(b"u" * 16, "mesh.subscribe", body)))
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "bad_request")
    assert mesh.rejections() == [("match", "malformed")]


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/octet-stream", "application/json"])
def test_what_is_asked_of_the_mesh_is_json_whatever_its_type_says(content_type: str, mesh: MeshInALog) -> None:
    peer = mesh.open("hsp")
    asked = Envelope(Kind.EVENT, 0, "mesh.subscribe", content_type).encode() + b'{"subject":"temp.*"}'
    mesh.log(peer.source, hsp.encode(Frame(Command.DATA_ACK, 1, ENVELOPE_TYPE, asked)))
    assert mesh.rejections() == []
    assert [one.pattern for one in mesh.state.table] == ["temp.*"]


def test_a_control_message_that_is_cancelled_was_none_the_worse_for_it(mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    subscribe(mesh, peer, "a.>", number=7)
    asked = (7).to_bytes(16, "big")
    mesh.log(peer.source, encode(yamp.Cancel((8).to_bytes(16, "big"), "mesh.subscribe", asked)))
    mesh.log(peer.source, event("a.b"))
    assert mesh.rejections() == []
    assert any(isinstance(decode(group.frame), yamp.UserEvent) for group in mesh.sent_to(peer))


@pytest.mark.parametrize("subject", ["mesh.session.opened", "MESH.x", "Mesh/x"])
def test_nobody_but_the_mesh_publishes_under_mesh(subject: str, mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, event(subject))
    mesh.log(peer.source, request(subject, 1))
    assert mesh.rejections() == [("match", "forbidden")] * 2
    ((kind, said),) = answers(mesh, peer)
    assert (kind, said["code"]) == (yamp.ResponseType.ERROR, "forbidden")


@pytest.mark.parametrize(
    "body", [{"n": 1}, [1.5, None, "é"], {"$base64": "AP8="}, {"deep": [{"$base64": "AP8="}]}, {"$base64": "no base64"}]
)
def test_a_ping_brings_back_its_body_and_when_it_was_here(body: object, mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request("mesh.ping", body))
    ((kind, said),) = answers(mesh, peer)
    assert kind is yamp.ResponseType.DONE
    assert said == {"body": body, "received_at": NOW * 1_000_000, "routed_at": mesh.state.now_us()}


@pytest.mark.parametrize(("sent", "said"), [(b"\0\xff", {"$base64": "AP8="}), (b"text", "text"), (b"", None)])
def test_a_ping_brings_back_bytes_of_no_type(sent: bytes, said: object, mesh: MeshInALog) -> None:
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


def test_a_sign_of_life_tells_each_request_of_itself_in_a_frame_of_its_own(mesh: MeshInALog) -> None:
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


def test_progress_that_has_no_form_here_still_shows_that_the_server_is_at_work(mesh: MeshInALog) -> None:
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

"""Each frame counts once, for what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.core import content
from gateway.protocols.hsp.codec import encode as encode_hsp
from gateway.protocols.hsp.frames import Command, Frame
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import encode
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, LatencyProbe, RuleEvent
from gateway.records.raw_log.frames import FrameSource, ReplyAddress
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, MeshInALog, Peer

JSON = {"format": "json"}
MESH_SOURCE = FrameSource(MESH, "", EDGE, EPOCH)


@pytest.fixture
def mesh() -> MeshInALog:
    return MeshInALog(partitions=1)


def peer_of(mesh: MeshInALog, protocol: str = "yamp", **opened: Any) -> Peer:
    peer = mesh.open(protocol, facts=JSON, **opened)
    mesh.state.tally.take()
    return peer


def event(subject: str) -> bytes:
    return encode(yamp.UserEvent((1).to_bytes(16, "big"), subject, b"1"))


def request(subject: str, body: object) -> bytes:
    return encode(yamp.Request((2).to_bytes(16, "big"), subject, content.to_json(body)))


def told(mesh: MeshInALog) -> dict[str, int]:
    """Returns the counts of frames only: `stage/outcome` or `stage/outcome/reason`."""
    frames = {key: count for key, count in mesh.state.tally.take().items() if key[0] == "frames"}
    return {
        "/".join(part for part in (stage, outcome, reason) if part): n
        for (_, stage, outcome, reason, _), n in frames.items()
    }


def lost(mesh: MeshInALog) -> dict[tuple[str, ...], int]:
    return {key[1:]: count for key, count in mesh.state.tally.take().items() if key[0] == "losses"}


def test_an_event_is_accepted_and_recorded(mesh: MeshInALog) -> None:
    peer = peer_of(mesh)
    mesh.log(peer.source, event("a.b"))
    assert told(mesh) == {"decode/accepted": 1, "match/event": 1}


def test_each_destination_of_an_event_counts(mesh: MeshInALog) -> None:
    peer_of(mesh, subscribe=("a.>",))
    peer = peer_of(mesh, subscribe=("a.*",))
    mesh.log(peer.source, event("a.b"))
    assert told(mesh)["deliver/routed"] == 2


CASES: list[tuple[str, Callable[[], bytes], dict[str, int]]] = [
    ("garbage", lambda: b"\xff\xff", {"decode/rejected/unknown_type": 1}),
    (
        "a request nobody serves",
        lambda: request("nobody", 1),
        {"decode/accepted": 1, "match/rejected/no_responder": 1, "deliver/routed": 1},
    ),
    (
        "a forbidden subject",
        lambda: event("mesh.anything"),
        {"decode/accepted": 1, "match/rejected/forbidden": 1},
    ),
    (
        "a ping of the mesh",
        lambda: request("mesh.ping", 1),
        {"decode/accepted": 1, "match/control": 1, "deliver/routed": 1},
    ),
]


@pytest.mark.parametrize(("frame", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_frame_counts_once_for_its_end(
    mesh: MeshInALog, frame: Callable[[], bytes], expected: dict[str, int]
) -> None:
    peer = peer_of(mesh)
    mesh.log(peer.source, frame())
    assert told(mesh) == expected


def test_the_mesh_s_own_frames_are_control(mesh: MeshInALog) -> None:
    mesh.log(MESH_SOURCE, control_frames.encode(LatencyProbe("t")))
    assert told(mesh) == {"decode/control": 1}


def test_a_session_that_opens_is_control_though_a_grant_was_refused() -> None:
    mesh = MeshInALog(settings={"permissions": [{"subscribe": {"allow": ["b.>"]}}]}, partitions=1)
    mesh.open("yamp", facts=JSON, subscribe=("a.>",))
    assert ("match", "forbidden") in mesh.rejections()
    assert told(mesh) == {"decode/control": 1}


def test_a_frame_of_the_mesh_that_no_mesh_wrote_is_refused(mesh: MeshInALog) -> None:
    mesh.log(MESH_SOURCE, b"{}")
    assert told(mesh) == {"decode/rejected/malformed": 1}


def test_what_a_rule_may_not_say_is_refused(mesh: MeshInALog) -> None:
    mesh.log(MESH_SOURCE, control_frames.encode(RuleEvent("loud", "t", "mesh.session.opened")))
    assert told(mesh) == {"decode/rejected/forbidden": 1}


def test_a_record_that_no_edge_wrote_is_one_frame(mesh: MeshInALog) -> None:
    mesh.append(b"not a record")
    assert mesh.state.tally.take() == {("frames", "log", "rejected", "malformed", ""): 1}


def test_a_mistake_of_ours_is_an_internal_refusal_and_nothing_else(
    mesh: MeshInALog, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = peer_of(mesh)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(mesh.state.topics.events, "row", broken)
    mesh.log(peer.source, event("a.b"))
    assert told(mesh) == {"decode/accepted": 1, "match/rejected/internal": 1}


def test_what_a_translation_loses_is_counted_by_both_protocols(mesh: MeshInALog) -> None:
    mesh.open("hsp", facts={}, subscribe=("a.>",))
    peer = peer_of(mesh)
    mesh.log(peer.source, event("a.b"))
    assert lost(mesh) == {("yamp", "hsp", "subject"): 1}


@pytest.mark.parametrize(("to", "body"), [("emm", b'"' + b"x" * 600 + b'"'), ("hsp", b"1" * 5_000)])
def test_what_has_no_form_at_its_receiver_is_lost_for_its_reason(to: str, body: bytes) -> None:
    mesh = MeshInALog(partitions=1)
    mesh.state.largest_frame = 4_000
    receiver = mesh.open(to, facts={"envelope": True}, subscribe=("a.>",))
    peer = peer_of(mesh)
    mesh.log(peer.source, encode(yamp.UserEvent((1).to_bytes(16, "big"), "a.b", body)))
    assert not mesh.sent_to(receiver)
    assert lost(mesh) == {("yamp", to, "too_large"): 1}


@pytest.mark.parametrize(
    ("to", "asked", "expected"),
    [
        ("yamp", "07" * 16, {("hsp", "yamp", "code"): 1}),
        ("emp", "7", {("hsp", "emp", "code"): 1}),
        ("wolpertinger", "c", {("hsp", "wolpertinger", "body"): 1, ("hsp", "wolpertinger", "code"): 1}),
        ("hsp", "e7", {("hsp", "hsp", "code"): 1}),
        ("hsp", "7", {}),
    ],
)
def test_the_type_of_an_hsp_error_is_lost_but_to_who_asked_in_plain_hsp(
    mesh: MeshInALog, to: str, asked: str, expected: dict[tuple[str, ...], int]
) -> None:
    requester = mesh.open(to, facts=JSON | {"envelope": True})
    server = peer_of(mesh, "hsp")
    reply = ReplyAddress(to, to, EDGE, EPOCH, requester.number, asked, "sum", True, requester.source.facts)
    mesh.log(server.source, encode_hsp(Frame(Command.ERROR, 7, 4660, b"{}")), replies=(reply,))
    assert len(mesh.sent_to(requester)) == 1
    assert lost(mesh) == expected


def test_verdicts_count_accepted_frames_by_how_their_sender_was_proven(mesh: MeshInALog) -> None:
    peer = peer_of(mesh)
    mesh.log(peer.source, event("a.b"))
    mesh.log(peer.source, b"\xff\xff")
    verdicts = {key: count for key, count in mesh.state.tally.take().items() if key[0] == "verdicts"}
    assert verdicts == {("verdicts", "none", "yamp"): 1}


def test_what_was_taken_is_not_there_any_more(mesh: MeshInALog) -> None:
    mesh.log(MESH_SOURCE, control_frames.encode(LatencyProbe("t")))
    assert mesh.state.tally.take()
    assert mesh.state.tally.take() == {}

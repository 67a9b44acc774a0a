"""Tests the cost of an interest's change for the log: one record a partition, and nothing if nothing changes."""

from __future__ import annotations

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.interests import changes
from gateway.protocols.hsp import codec as hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.yamp import frames as yamp
from gateway.records.egress import InterestApplied
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder, decode_record
from gateway.records.raw_log.control_frames import InterestChanged
from tests.unit.routing.asking import answers, client, request
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog, Peer

PARTITIONS = 8


def told(subject: str, pattern: str) -> bytes:
    """A control message that nobody waits for. It has no dedup key, so that neighbours travel together."""
    asked = Envelope(Kind.EVENT, 0, subject, "application/json").encode() + b'{"subject":"%s"}' % pattern.encode()
    return hsp.encode(Frame(Command.DATA, 0, ENVELOPE_TYPE, asked))


def log_together(mesh: MeshInALog, peer: Peer, *frames: bytes) -> None:
    builder = ContainerBuilder(EDGE, EPOCH)
    for frame in frames:
        builder.add(peer.source, NOW * 1_000_000, frame)
    mesh.append(builder.build())


def names_of_changes(record: bytes) -> list[str]:
    frames = [control_frames.decode(raw.data) for raw in decode_record(record).frames]
    assert all(isinstance(frame, InterestChanged) for frame in frames)
    decoded = [changes.from_bytes(frame.change.encode()) for frame in frames if isinstance(frame, InterestChanged)]
    return [type(change).__name__ for change in decoded]


@pytest.mark.parametrize("verb", ["unsubscribe", "unserve"])
def test_taking_back_what_never_was_is_answered_and_writes_nothing(verb: str, mesh: MeshInALog) -> None:
    peer = client(mesh)
    mesh.forget_outputs()
    mesh.log(peer.source, request(f"mesh.{verb}", {"subject": "a"}))
    assert answers(mesh, peer) == [(yamp.ResponseType.DONE, True)]
    assert (mesh.of("raw"), mesh.of("interests")) == ([], [])


def test_taking_back_what_was_asked_for_in_the_same_record_takes_it_back(mesh: MeshInALog) -> None:
    peer = mesh.open("hsp")
    log_together(mesh, peer, told("mesh.subscribe", "a"), told("mesh.unsubscribe", "a"))
    assert len(mesh.state.table) == 0
    assert mesh.of("interests")[-1].value is None


def test_who_subscribes_again_while_its_unsubscription_is_under_way_is_subscribed(mesh: MeshInALog) -> None:
    peer = mesh.open("hsp")
    mesh.log(peer.source, told("mesh.subscribe", "a"))
    log_together(mesh, peer, told("mesh.unsubscribe", "a"), told("mesh.subscribe", "a"))
    assert len(mesh.state.table) == 1


def test_changes_of_one_record_go_into_one_record_a_partition() -> None:
    mesh = MeshInALog(partitions=PARTITIONS)
    peer = mesh.open("hsp")
    mesh.forget_outputs()
    log_together(mesh, peer, *(told("mesh.subscribe", f"a.{number}") for number in range(50)))
    written = mesh.of("raw")
    assert [out.partition for out in written] == list(range(PARTITIONS))
    for out in written:
        assert names_of_changes(out.value or b"") == ["Put"] * 50
    assert len(mesh.state.table) == 50


def test_frames_whose_repeats_are_dropped_share_a_record_too() -> None:
    mesh = MeshInALog(partitions=PARTITIONS)
    peer = client(mesh)
    mesh.forget_outputs()
    asked = [request("mesh.subscribe", {"subject": f"a.{number}"}, number) for number in range(50)]
    log_together(mesh, peer, *asked, asked[0])
    assert [out.partition for out in mesh.of("raw")] == list(range(PARTITIONS))
    assert names_of_changes(mesh.of("raw")[0].value or b"") == ["Put"] * 50


def test_the_changes_of_one_frame_stay_in_their_order(mesh: MeshInALog) -> None:
    peer = mesh.open("hsp")
    log_together(mesh, peer, told("mesh.subscribe", "a"), told("mesh.unsubscribe", "a"), told("mesh.subscribe", "a"))
    assert names_of_changes(mesh.of("raw")[-1].value or b"") == ["Put", "Remove", "Put"]
    assert len(mesh.state.table) == 1


def test_each_that_waits_is_told_by_every_partition() -> None:
    mesh = MeshInALog(partitions=PARTITIONS)
    peer = client(mesh)
    mesh.forget_outputs()
    body = {"subject": "a"}
    log_together(mesh, peer, request("mesh.subscribe", body, 1), request("mesh.serve", body, 2))
    applied = [entry for _, entry in mesh.told() if isinstance(entry, InterestApplied)]
    tickets = {entry.ticket for entry in mesh.egress() if entry.ticket}
    assert len(tickets) == 2
    for ticket in tickets:
        assert {entry.partition for entry in applied if entry.ticket == ticket} == set(range(PARTITIONS))


def test_a_record_of_changes_is_never_larger_than_kafka_takes() -> None:
    mesh = MeshInALog(settings={"kafka": {"partitions": 2, "message_bytes": 131_072}, "limits": {"frame_bytes": 1024}})
    peer = mesh.open("hsp", facts={"about": "x" * 1_000})
    mesh.forget_outputs()
    log_together(mesh, peer, *(told("mesh.subscribe", f"a.{number}") for number in range(200)))
    assert len(mesh.of("raw")) > 2
    assert max(len(out.value or b"") for out in mesh.of("raw")) <= 131_072
    assert len(mesh.state.table) == 200

"""A node that outlives its sessions comes back at another edge: what the router tells both, and what it passes on."""

from __future__ import annotations

from base64 import b64encode

from gateway.core.event import Kind
from gateway.records.egress import Deliver, MigrationPhase, MigrationStep
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, DeliveryMigrated, MeshFrame, MigrationFinished
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from tests.unit.routing.mesh_in_a_log import EPOCH, NOW, MeshInALog, Peer

FACTS = {"redeliver_seconds": 300}
NAME = "node:plant@hsp"


def comes(mesh: MeshInALog, edge: str, *subscribe: str) -> Peer:
    return mesh.open("hsp", facts=FACTS, node="plant", edge=edge, subscribe=subscribe)


def told(mesh: MeshInALog) -> list[tuple[object, ...]]:
    """Edge, raw partition, and what it is told of a migration."""
    return [
        (edge, step.position.partition, *said(step)) for edge, step in mesh.told() if isinstance(step, MigrationStep)
    ]


def said(step: MigrationStep) -> tuple[str, ...]:
    return step.step, step.node, step.move, step.edge, step.session


def logs(mesh: MeshInALog, frame: MeshFrame, again: Replayed | None = None) -> None:
    """A frame of edge-0's own."""
    source = FrameSource(MESH, "", "edge-0", EPOCH)
    builder = ContainerBuilder("edge-0", EPOCH)
    raw = RawFrame(control_frames.encode(frame), source, NOW * 1_000_000)
    if again is None:
        builder.add(source, raw.received_at, raw.data)
    else:
        builder.add_again(raw, again)
    mesh.append(builder.build())


def test_both_edges_are_told_where_the_move_stands_in_each_partition(mesh: MeshInALog) -> None:
    left = comes(mesh, "edge-0", "a.>")
    mesh.forget_outputs()
    comes(mesh, "edge-1")
    (kept,) = mesh.state.table.of(NAME)
    move = "-".join(map(str, kept.position))
    give = MigrationPhase.GIVE, NAME, move, "edge-1", left.source.session_id
    expect = MigrationPhase.EXPECT, NAME, move, "", ""
    assert told(mesh) == [(0, 0, *give), (1, 0, *expect), (0, 1, *give), (1, 1, *expect)]


def test_a_node_that_comes_back_where_it_was_moves_nothing(mesh: MeshInALog) -> None:
    comes(mesh, "edge-0", "a.>")
    comes(mesh, "edge-1")
    mesh.forget_outputs()
    comes(mesh, "edge-1")
    assert told(mesh) == []


def test_a_move_that_is_routed_once_more_after_a_crash_says_the_same() -> None:
    """Routed by a worker whose interests are ahead of the log: it knows of the move already."""
    mesh = MeshInALog(partitions=1)
    comes(mesh, "edge-0", "a.>")
    mesh.forget_outputs()
    comes(mesh, "edge-1")
    first = list(mesh.written)
    mesh.forget_outputs()
    for partition, offset in sorted(mesh.records)[-2:]:
        mesh.route(partition, offset)
    assert mesh.written == first
    assert len(told(mesh)) == 2


def test_a_debt_goes_to_where_its_node_is_under_the_name_of_the_first_time(mesh: MeshInALog) -> None:
    comes(mesh, "edge-0", "a.>")
    comes(mesh, "edge-1")
    comes(mesh, "edge-2")
    mesh.forget_outputs()
    debt = DeliveryMigrated(
        NAME, "0-5-0", "edge-1", 3, "hsp", "event", "a.x", "yamp", 17, b64encode(b"frame").decode(), (4,)
    )
    logs(mesh, debt, Replayed("1-9-2", NOW * 1_000_000))
    logs(mesh, MigrationFinished(NAME, "0-5-0", "edge-1"))
    (edge, given), (end_edge, end) = mesh.told()
    assert isinstance(given, Deliver)
    assert edge == 2
    assert (given.event_id, given.position.part, given.kind, given.received_at) == ("1-9-2", 3, Kind.EVENT, 17)
    (group,) = given.groups
    assert (group.frame, group.stamps, group.owed) == (b"frame", (4,), (NAME,))
    assert given.is_migrated
    assert isinstance(end, MigrationStep)
    assert (end_edge, *said(end)) == (1, MigrationPhase.DONE, NAME, "0-5-0", "", "")


def test_a_debt_that_is_handed_over_twice_is_delivered_once() -> None:
    mesh = MeshInALog(knows_ids=True)
    debt = DeliveryMigrated(NAME, "0-5-0", "edge-1", 0, "hsp", "event", "a.x", "yamp", 17, "")
    for _ in range(2):
        logs(mesh, debt, Replayed("1-9-2", NOW * 1_000_000))
    ((_, entry),) = mesh.told()
    assert isinstance(entry, Deliver)
    assert entry.is_migrated

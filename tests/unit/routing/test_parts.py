"""Positions at an edge do not depend on what other edges get: what is routed again after a crash is known there."""

from __future__ import annotations

from gateway.records.egress import PositionFilter
from tests.unit.routing.asking import client, event
from tests.unit.routing.mesh_in_a_log import MeshInALog, Peer


def subscriber(mesh: MeshInALog, edge: str) -> Peer:
    return mesh.open("yamp", facts={"format": "json"}, edge=edge, subscribe=("a.>",))


def test_an_event_that_is_routed_again_passes_no_edge_twice_whoever_has_subscribed_elsewhere_meanwhile() -> None:
    """The restarted worker's interest table is ahead of the log: it knows a subscriber at edge-0 that came later."""
    mesh = MeshInALog(partitions=1)
    publisher = client(mesh)
    subscriber(mesh, "edge-1")
    mesh.forget_outputs()
    mesh.log(publisher.source, event("a.x"))
    before = mesh.told()
    _, offset = max(mesh.records)
    subscriber(mesh, "edge-0")
    mesh.forget_outputs()
    mesh.route(0, offset)
    again = mesh.told()
    assert [edge for edge, _ in before] == [1]
    assert {edge for edge, _ in again} == {0, 1}
    at_edge_1 = PositionFilter()
    told = [entry for edge, entry in (*before, *again) if edge == 1]
    assert [at_edge_1.passes(entry.position) for entry in told] == [True, False]

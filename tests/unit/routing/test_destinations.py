"""Who gets an event is remembered by its subject, within bounds."""

from __future__ import annotations

import pytest

from gateway.core.event import Event, Kind
from streaming_jobs.routing import destinations, flows
from streaming_jobs.routing.destinations import SUBJECT_RECEIVERS, Fanout
from tests.unit.routing.mesh_in_a_log import MeshInALog
from tests.unit.routing.test_nodes import BY_HMAC, hello, mesh_that, take
from tests.unit.routing.test_nodes import event as packet_of


def event(subject: str) -> Event:
    return Event("0-0-0", Kind.EVENT, subject, "yamp", "web", received_at=1)


def test_what_is_remembered_is_bounded_by_receivers_and_not_by_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = MeshInALog(partitions=1)
    for _ in range(SUBJECT_RECEIVERS):
        mesh.open("yamp", facts={"format": "json"}, subscribe=("many.>",))
    monkeypatch.setattr(destinations, "CACHED_RECEIVERS", 20 * SUBJECT_RECEIVERS)
    fanout = Fanout(mesh.state)
    remembered = [len(fanout._cached) for number in range(50) if fanout.find(event(f"many.{number}"))]
    assert max(remembered) == 10
    assert not fanout.find(event("nobody.0"))
    remembered = [len(fanout._cached) for number in range(50) if not fanout.find(event(f"nobody.{number}"))]
    assert max(remembered) == 20


def test_routes_of_common_frames_are_bounded_by_receivers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "CACHED_RECEIVERS", 10)
    mesh = mesh_that()
    take(mesh, hello(BY_HMAC, ">"))
    columnar = mesh._functions._columnar
    assert columnar is not None
    remembered = []
    for number in range(0, 100, 2):
        take(mesh, *[packet_of(f"a.{number + at}", BY_HMAC) for at in range(2)])
        remembered.append(len(columnar.flows._routes))
    assert max(remembered) == 12

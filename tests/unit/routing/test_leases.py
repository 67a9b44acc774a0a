"""Leases and the compacted topic: what a renewal writes, and what a router knows that starts from it."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gateway.config import Limits
from gateway.interests import InterestTable, Verb
from gateway.interests.interest import InterestKey
from gateway.interests.records import apply_record
from streaming_jobs.routing.lease_rate import MOST_NODES, LeaseRate
from tests.unit.routing.mesh_in_a_log import NOW, MeshInALog
from tests.unit.routing.test_nodes import BY_HMAC, ELSEWHERE, NAME, heartbeat, hello, mesh_that, take

LEASE = 90
KEY = InterestKey(f"emm:{NAME}", Verb.SUBSCRIBE, "", "a.>")


def stored(mesh: MeshInALog, *, keeps_leases: bool = True) -> InterestTable:
    """The table of a router that starts now, before it reads the log."""
    table = InterestTable()
    for out in mesh.of("interests"):
        assert out.key is not None
        apply_record(table, out.key, out.value, keeps_leases=keeps_leases)
    return table


def restart(mesh: MeshInALog) -> MeshInALog:
    """A router that has read the compacted topic, and has committed all of the log so far."""
    after = mesh_that(lease_seconds=LEASE)
    for out in mesh.of("interests"):
        assert out.key is not None
        apply_record(after.state.table, out.key, out.value)
    after._ends = list(mesh._ends)
    return after


def end_of(table: InterestTable) -> float:
    (lease,) = table
    return (lease.expires_at or 0) / 1_000_000 - NOW


def renewed(*heartbeats: float) -> MeshInALog:
    mesh = mesh_that(lease_seconds=LEASE)
    take(mesh, hello(BY_HMAC, "a.>"))
    for after in heartbeats:
        take(mesh, heartbeat(), after=after)
    return mesh


def test_most_renewals_write_nothing_into_the_compacted_topic() -> None:
    every_half_minute = [30.0 * number for number in range(1, 10)]
    mesh = renewed(*every_half_minute)
    assert end_of(mesh.state.table) == 270 + LEASE
    assert len(mesh.of("interests")) == 3


@pytest.mark.parametrize("count", range(12))
def test_a_router_that_starts_anew_never_ends_a_lease_early(count: int) -> None:
    heartbeats = [25.0 * number for number in range(1, count + 1)]
    mesh = renewed(*heartbeats)
    promised = end_of(mesh.state.table)
    assert promised == 25.0 * count + LEASE
    assert promised <= end_of(stored(mesh)) <= promised + LEASE


@pytest.mark.parametrize("count", range(12))
def test_an_account_of_the_past_believes_no_lease_longer_than_it_was_promised(count: int) -> None:
    mesh = renewed(*(25.0 * number for number in range(1, count + 1)))
    assert end_of(stored(mesh, keeps_leases=False)) <= end_of(mesh.state.table)


def test_a_node_that_renews_at_a_router_which_started_anew_renews_everywhere() -> None:
    """Another worker may know the exact end of the lease, and must hear of each renewal before that."""
    old = renewed(30.0)
    fresh = restart(old)
    take(fresh, heartbeat(), after=60.0)
    assert end_of(fresh.state.table) == 60 + LEASE
    assert fresh.of("raw")


def test_the_lease_of_a_node_that_went_away_ends_after_a_restart_too() -> None:
    fresh = restart(renewed(30.0))
    (lease,) = fresh.state.table
    assert not lease.alive_at(int((NOW + 30 + 2 * LEASE) * 1_000_000))


def test_what_the_log_told_of_a_renewal_wins_over_its_record() -> None:
    """A worker reads the topic again at each of its tasks."""
    mesh = renewed()
    for out in mesh.of("interests"):
        assert out.key is not None
        apply_record(mesh.state.table, out.key, out.value)
    assert end_of(mesh.state.table) == LEASE


def test_a_hello_that_asks_for_the_same_renews() -> None:
    mesh = renewed()
    before = len(mesh.of("interests"))
    take(mesh, hello(BY_HMAC, "a.>"), after=30.0)
    assert end_of(mesh.state.table) == 30 + LEASE
    assert len(mesh.of("interests")) == before
    assert mesh.egress()[-1].ticket  # answered when it holds everywhere


def test_a_hello_from_elsewhere_is_written_at_once() -> None:
    mesh = renewed()
    take(mesh, hello(BY_HMAC, "a.>"), after=30.0, peer=ELSEWHERE)
    known = stored(mesh).get(KEY)
    assert known is not None
    assert known.address == ELSEWHERE


class TestChangesOfANodeWithoutASession:
    """Each is written into every raw partition, and nobody can be read later who sends datagrams."""

    LIMITS: ClassVar = {"subscriptions_per_session": 4, "control_frames_per_second_per_session": 1}

    def test_as_many_as_the_limit_may_come_at_once_and_one_more_is_refused_whole(self) -> None:
        mesh = mesh_that(**self.LIMITS)
        take(mesh, hello(BY_HMAC, "a", "b"))
        take(mesh, hello(BY_HMAC, "c"), after=0.5)  # two end, and one begins: 0.5 of them have been forgotten
        assert refused(mesh) == ["rate_limited"]
        assert patterns(mesh) == ["a", "b"]
        take(mesh, hello(BY_HMAC, "c"), after=1)
        assert refused(mesh) == ["rate_limited"]
        assert patterns(mesh) == ["c"]

    def test_another_node_is_not_concerned(self) -> None:
        rate = LeaseRate()
        limits = Limits(subscriptions_per_session=4)
        assert [rate.takes("a", 2, 0, limits), rate.takes("a", 2, 0, limits), rate.takes("a", 1, 0, limits)] == [
            True, True, False,
        ]  # fmt: skip
        assert rate.takes("b", 4, 0, limits)

    def test_whoever_has_caught_a_hello_cannot_use_up_the_rate_of_its_node(self) -> None:
        mesh = mesh_that(**self.LIMITS)
        mesh.knows_ids = True
        first, second = hello(BY_HMAC, "a"), hello(BY_HMAC, "b")
        take(mesh, first)
        take(mesh, second, after=1)
        for number in range(9):
            take(mesh, (first, second)[number % 2], after=1, peer=ELSEWHERE)
        take(mesh, hello(BY_HMAC, "c"), after=2)
        assert refused(mesh) == []
        assert patterns(mesh) == ["c"]

    def test_the_nodes_that_are_remembered_are_bounded(self) -> None:
        rate = LeaseRate()
        for number in range(MOST_NODES + 1):
            rate.takes(str(number), 1, 0, Limits())
        assert len(rate._changes) == MOST_NODES


def patterns(mesh: MeshInALog) -> list[str]:
    return sorted(interest.pattern for interest in mesh.state.table)


def refused(mesh: MeshInALog) -> list[str]:
    return [refusal.reason for refusal in mesh.refusals()]

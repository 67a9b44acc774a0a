"""Tests what changes do to the table, in order, repeated, and out of the past."""

from __future__ import annotations

import pytest

from gateway.interests import (
    Change,
    EndSession,
    Interest,
    InterestTable,
    NewEpoch,
    Put,
    Remove,
    Renew,
    SetFacts,
    Verb,
    table,
)

from .examples import EDGE, NOW, at, interest, key


def subscribers(of: InterestTable, subject: str, at_us: int = NOW) -> list[str]:
    return sorted(one.subscriber for one in of.match(subject, Verb.SUBSCRIBE, at_us, "0-1-0"))


@pytest.fixture
def mesh() -> InterestTable:
    """`a` wants temp.* and temp.high, `b` wants temp.high."""
    mesh = InterestTable()
    for put in (interest("a", "temp.*", 1), interest("a", "temp.high", 2), interest("b", "temp.high", 3)):
        mesh.apply(Put(put))
    return mesh


class TestChanges:
    def test_a_new_interest_is_told_and_matches(self) -> None:
        mesh, wanted = InterestTable(), interest("a", "temp.*")
        assert mesh.apply(Put(wanted)).put == (wanted,)
        assert subscribers(mesh, "temp.high") == ["a"]
        assert (len(mesh), list(mesh), mesh.of("a")) == (1, [wanted], (wanted,))

    def test_an_interest_that_is_put_again_replaces_the_first(self, mesh: InterestTable) -> None:
        again = interest("b", "temp.high", 9, listener="web")
        assert mesh.apply(Put(again)).put == (again,)
        assert mesh.of("b") == (again,)
        assert len(mesh) == 3

    def test_a_removed_interest_matches_no_more_and_the_others_do(self, mesh: InterestTable) -> None:
        applied = mesh.apply(Remove(key("a", "temp.*"), at(9)))
        assert [one.pattern for one in applied.removed] == ["temp.*"]
        assert subscribers(mesh, "temp.low") == []
        assert subscribers(mesh, "temp.high") == ["a", "b"]

    def test_removing_what_is_not_there_does_nothing(self, mesh: InterestTable) -> None:
        assert not mesh.apply(Remove(key("a", "other"), at(9)))
        assert not mesh.apply(Remove(key("nobody", "temp.*"), at(9)))
        assert len(mesh) == 3

    def test_patterns_that_differ_by_separator_alone_are_two_interests(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "temp/high", 1)))
        mesh.apply(Put(interest("a", "temp.high", 2)))
        mesh.apply(Remove(key("a", "temp.high"), at(3)))
        assert [one.pattern for one in mesh.of("a")] == ["temp/high"]
        assert subscribers(mesh, "temp.high") == ["a"]

    def test_the_end_of_a_session_ends_all_it_wanted(self, mesh: InterestTable) -> None:
        applied = mesh.apply(EndSession("a", at(9)))
        assert sorted(one.pattern for one in applied.removed) == ["temp.*", "temp.high"]
        assert subscribers(mesh, "temp.high") == ["b"]
        assert mesh.of("a") == ()

    def test_new_facts_hold_for_all_of_a_subscriber(self, mesh: InterestTable) -> None:
        applied = mesh.apply(SetFacts("a", {"format": "msgpack"}, at(9)))
        assert [one.facts for one in applied.put] == [{"format": "msgpack"}] * 2
        assert {one.subscriber: dict(one.facts) for one in mesh} == {"a": {"format": "msgpack"}, "b": {}}

    def test_renewing_moves_the_leases_of_a_subscriber_and_leaves_what_is_no_lease(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "temp.high", 1, expires_at=NOW)))
        mesh.apply(Put(interest("a", "temp.low", 1)))
        applied = mesh.apply(Renew("a", NOW + 90, at(2)))
        assert [(one.pattern, one.expires_at) for one in applied.put] == [("temp.high", NOW + 90)]
        assert subscribers(mesh, "temp.high", NOW + 89) == ["a"]

    def test_a_subscriber_may_come_back_after_its_end(self, mesh: InterestTable) -> None:
        mesh.apply(EndSession("a", at(9)))
        mesh.apply(Put(interest("a", "temp.low", 10)))
        assert subscribers(mesh, "temp.low") == ["a"]


class TestRepeats:
    """After a crash the log repeats what it said since the last commit, in the same order."""

    HISTORY: tuple[Change, ...] = (
        Put(interest("a", "temp.*", 1)),
        Put(interest("b", "temp.high", 2)),
        Put(interest("a", "temp.high", 3)),
        SetFacts("a", {"format": "msgpack"}, at(4)),
        Remove(key("a", "temp.*"), at(5)),
        EndSession("b", at(6)),
        Put(interest("c", ">", 7)),
        Put(interest("c", "x", 7)),
    )

    @pytest.mark.parametrize("repeated_from", range(len(HISTORY)))
    def test_repeating_any_tail_of_the_log_changes_nothing(self, repeated_from: int) -> None:
        mesh = InterestTable()
        for change in self.HISTORY:
            mesh.apply(change)
        before = list(mesh)
        for change in self.HISTORY[repeated_from:]:
            assert not mesh.apply(change)
        assert list(mesh) == before

    def test_a_copy_that_is_ahead_of_the_log_takes_nothing_back(self) -> None:
        ahead = InterestTable()
        ahead.apply(Put(interest("a", "temp.*", 8, listener="web")))
        assert not ahead.apply(Put(interest("a", "temp.*", 3)))
        assert not ahead.apply(EndSession("a", at(5)))
        assert [one.listener for one in ahead.of("a")] == ["web"]

    def test_what_ended_does_not_come_back_by_a_repeat(self, mesh: InterestTable) -> None:
        mesh.apply(EndSession("b", at(9)))
        assert not mesh.apply(Put(interest("b", "temp.high", 3)))
        assert mesh.of("b") == ()

    def test_the_ends_that_are_remembered_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(table, "ENDS_REMEMBERED", 2)
        mesh = InterestTable()
        for name in "abc":
            mesh.apply(Put(interest(name, "x", 1)))
            mesh.apply(EndSession(name, at(2)))
        assert [bool(mesh.apply(Put(interest(name, "x", 1)))) for name in "cba"] == [False, False, True]

    def test_an_end_holds_for_what_comes_again_though_it_found_nothing_to_end(self) -> None:
        mesh = InterestTable()
        assert not mesh.apply(EndSession("a", at(9)))
        assert not mesh.apply(Put(interest("a", "x", 3)))
        assert mesh.apply(Put(interest("a", "x", 9)))

    def test_a_change_that_is_older_than_one_interest_still_holds_for_another(self) -> None:
        """The compacted topic keeps no order between keys: what was wanted last may be read first."""
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", 9)))
        assert mesh.apply(Put(interest("a", "y", 5)))
        assert mesh.apply(Remove(key("a", "y"), at(5)))
        assert [one.pattern for one in mesh.apply(EndSession("a", at(9))).removed] == ["x"]

    def test_an_end_leaves_what_is_younger(self) -> None:
        mesh = InterestTable()
        for pattern, offset in (("x", 3), ("y", 9)):
            mesh.apply(Put(interest("emm:n", pattern, offset)))
        assert [one.pattern for one in mesh.apply(EndSession("emm:n", at(5))).removed] == ["x"]
        assert subscribers(mesh, "y") == ["emm:n"]

    def test_facts_and_leases_that_are_older_than_an_interest_do_not_reach_it(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", 9, expires_at=NOW)))
        assert not mesh.apply(SetFacts("a", {"format": "msgpack"}, at(5)))
        assert not mesh.apply(Renew("a", NOW + 90, at(5)))

    def test_an_interest_that_is_older_than_its_facts_is_a_repeat(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", 3)))
        mesh.apply(SetFacts("a", {"format": "msgpack"}, at(5)))
        assert not mesh.apply(Put(interest("a", "x", 3)))
        assert mesh.of("a")[0].facts == {"format": "msgpack"}

    def test_positions_of_two_partitions_do_not_compare(self) -> None:
        """Partitions were added and the node has moved to one with a smaller number, or a smaller offset."""
        mesh = InterestTable()
        mesh.apply(Put(interest("emm:n", "x", position=at(900, partition=3))))
        assert mesh.apply(Remove(key("emm:n", "x"), at(5, partition=1)))
        assert len(mesh) == 0


class TestEpochs:
    def test_a_new_epoch_of_an_edge_ends_the_sessions_of_its_earlier_ones(self) -> None:
        mesh = InterestTable()
        for name, epoch in (("old", 1), ("new", 2)):
            mesh.apply(Put(interest(name, "x", epoch=epoch)))
        applied = mesh.apply(NewEpoch(EDGE, 2))
        assert [one.subscriber for one in applied.removed] == ["old"]
        assert subscribers(mesh, "x") == ["new"]

    def test_a_new_epoch_leaves_other_edges_alone(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", edge="edge-1")))
        assert not mesh.apply(NewEpoch(EDGE, 2))
        assert subscribers(mesh, "x") == ["a"]

    def test_a_new_epoch_leaves_what_is_durable(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("emm:n", "x", durable=True, expires_at=NOW + 90)))
        assert not mesh.apply(NewEpoch(EDGE, 2))
        assert subscribers(mesh, "x") == ["emm:n"]

    def test_an_interest_of_an_epoch_that_is_over_is_not_taken(self) -> None:
        mesh = InterestTable()
        mesh.apply(NewEpoch(EDGE, 2))
        assert not mesh.apply(Put(interest("old", "x", epoch=1)))
        assert mesh.apply(Put(interest("emm:n", "x", epoch=1, durable=True)))
        assert mesh.apply(Put(interest("new", "x", epoch=2)))

    def test_an_interest_of_a_new_epoch_says_that_older_ones_are_over(self) -> None:
        """A copy filled from the compacted topic never saw the epoch begin."""
        mesh = InterestTable()
        mesh.apply(Put(interest("new", "x", epoch=2)))
        assert not mesh.apply(Put(interest("old", "x", epoch=1)))

    def test_an_epoch_told_again_or_an_older_one_does_nothing(self) -> None:
        mesh = InterestTable()
        mesh.apply(NewEpoch(EDGE, 5))
        mesh.apply(Put(interest("a", "x", epoch=5)))
        assert not mesh.apply(NewEpoch(EDGE, 5))
        assert not mesh.apply(NewEpoch(EDGE, 4))
        assert not mesh.apply(Put(interest("b", "x", epoch=4)))

    def test_an_interest_that_has_moved_to_another_edge_is_no_longer_the_first_ones(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("n", "x", 1)))
        mesh.apply(Put(interest("n", "x", 2, edge="edge-1")))
        assert not mesh.apply(NewEpoch(EDGE, 2))
        assert mesh.apply(NewEpoch("edge-1", 2))


class TestLeases:
    def leased(self) -> InterestTable:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", expires_at=NOW + 90)))
        mesh.apply(Put(interest("b", "x")))
        return mesh

    def test_a_lease_matches_up_to_its_end_and_not_at_it(self) -> None:
        mesh = self.leased()
        assert subscribers(mesh, "x", NOW + 89) == ["a", "b"]
        assert subscribers(mesh, "x", NOW + 90) == ["b"]

    def test_the_events_time_decides_and_not_the_order_of_asking(self) -> None:
        mesh = self.leased()
        assert subscribers(mesh, "x", NOW + 90) == ["b"]
        assert subscribers(mesh, "x", NOW + 89) == ["a", "b"]

    def test_of_overlapping_leases_the_longest_counts(self) -> None:
        mesh = InterestTable()
        mesh.apply(Put(interest("a", "x", expires_at=NOW + 10)))
        mesh.apply(Put(interest("a", "*", expires_at=NOW + 90)))
        mesh.apply(Put(interest("a", ">", expires_at=NOW + 20)))
        assert subscribers(mesh, "x", NOW + 89) == ["a"]
        assert subscribers(mesh, "x", NOW + 90) == []

    def test_what_is_derived_from_a_match_can_be_kept_when_a_lease_is_over(self) -> None:
        mesh = self.leased()
        before = mesh.match("x", Verb.SUBSCRIBE, NOW, "0-1-0").plain
        assert mesh.match("x", Verb.SUBSCRIBE, NOW + 89, "0-2-0").plain is before
        after = mesh.match("x", Verb.SUBSCRIBE, NOW + 90, "0-3-0").plain
        assert subscribers(mesh, "x", NOW + 89) == ["a", "b"]  # of an edge whose clock is behind
        assert mesh.match("x", Verb.SUBSCRIBE, NOW + 900, "0-4-0").plain is after

    def test_leases_that_are_over_are_forgotten_and_nothing_else(self) -> None:
        mesh = self.leased()
        mesh.forget_leases(NOW + 89)
        assert len(mesh) == 2
        mesh.forget_leases(NOW + 90)
        assert [one.subscriber for one in mesh] == ["b"]


def leased_interest(expires_at: int | None) -> Interest:
    return interest("a", "x", expires_at=expires_at)


@pytest.mark.parametrize(("expires_at", "alive"), [(None, True), (NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_an_interest_lives_until_its_end(expires_at: int | None, alive: bool) -> None:
    assert leased_interest(expires_at).alive_at(NOW) is alive

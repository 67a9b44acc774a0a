"""A node that comes back at another edge takes along what it is owed."""

from __future__ import annotations

from gateway.protocols.actions import Outcome
from tests.unit.edge.delivery.queue_store import WAIT, Store


def test_what_is_owed_of_a_partition_is_taken_out_in_order_and_nothing_else_is(store: Store) -> None:
    store.owes(2)
    store.owes(partition=1)
    store.owes()
    assert store.takes_out() == [0, 1, 3]
    assert store.opens().offsets == [2]
    assert store.takes_out(left="edge-0.1.0") == []


def test_the_session_that_the_node_has_left_is_ended_and_what_it_did_not_confirm_is_taken_out(store: Store) -> None:
    left = store.opens(number=4)
    store.owes(3)
    store.hears(left, 1, Outcome.CONFIRMED)
    assert store.takes_out(left="edge-0.1.4") == [0, 2]
    assert left.aborted
    store.hears(left, 0, Outcome.CONFIRMED)
    assert store.ends == [(1, "confirmed", "said")]
    assert store.owed.bytes == 0


def test_a_session_that_is_newer_than_the_one_the_node_has_left_keeps_what_it_is_owed(store: Store) -> None:
    newer = store.opens(number=5)
    store.owes(2)
    assert store.takes_out(left="edge-0.1.4") == []
    assert not newer.aborted
    store.hears(newer, 0, Outcome.CONFIRMED)
    assert store.ends == [(0, "confirmed", "said")]


def test_what_is_new_goes_behind_what_the_other_edge_has_owed(store: Store) -> None:
    session = store.opens()
    store.expects("1-7-0")
    store.owes(2)
    store.owes(is_migrated=True)
    assert session.offsets == [2]
    store.owes(partition=1)  # another partition: its order is another
    assert session.offsets == [2, 3]
    store.arrives("0-0-0")  # of another move
    assert store.over == []
    store.arrives("1-7-0")
    assert session.offsets == [2, 3, 0, 1]
    assert store.over == ["1-7-0"]


def test_another_edge_is_not_waited_for_for_ever(store: Store) -> None:
    session = store.opens()
    store.expects("1-7-0")
    store.owes(2)
    store.waits(WAIT - 0.1)
    assert session.offsets == []
    store.waits(0.1)
    assert session.offsets == [0, 1]
    assert store.over == ["1-7-0"]


def test_a_node_that_moves_on_before_it_has_all_takes_that_along_too(store: Store) -> None:
    store.expects("1-7-0")
    store.owes(is_migrated=True)
    store.owes()
    assert store.takes_out() == [0, 1]
    assert (store.over, len(store.owed)) == (["1-7-0"], 0)

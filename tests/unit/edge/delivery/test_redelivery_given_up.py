"""A delivery that sessions end on is given up, and no other."""

from __future__ import annotations

from gateway.core.event import Kind
from gateway.edge.delivery.egress_delivery import EgressDelivery
from gateway.edge.delivery.poison import GIVE_UP_AFTER, GIVEN_UP, WARY_AFTER, PoisonDetector
from gateway.protocols.actions import Outcome
from tests.unit.edge.delivery.queue_store import Store


def test_what_a_node_breaks_on_is_given_up_and_costs_it_nothing_else(store: Store) -> None:
    store.owes(8)
    sessions = store.breaks_on(3, 20)
    assert [end for end in store.ends if end[1] != "confirmed"] == [(3, "undeliverable", GIVEN_UP)]
    assert sessions == 1 + WARY_AFTER + GIVE_UP_AFTER  # the first ones end with a better one open as the oldest
    assert sorted(offset for offset, _, _ in store.ends) == list(range(8))
    assert (len(store.owed), store.owed.bytes) == (0, 0)


def test_a_node_that_only_seems_to_be_there_loses_nothing(store: Store) -> None:
    """Behind a balancer, say, which accepts and hangs up for want of anybody to pass it on to."""
    store.owes(3)
    for _ in range(5 * GIVE_UP_AFTER):
        store.loses(store.opens(is_alive=False))
    assert store.ends == []
    session = store.opens(is_alive=False)
    store.later.pop()()
    assert session.asked
    assert session.got == []
    session.is_alive = True
    store.later.pop()()
    assert session.offsets == [0]  # one at a time, now that it is there


def test_a_node_that_comes_and_goes_loses_nothing_of_what_it_gets_on_with(store: Store) -> None:
    store.owes(3 * GIVE_UP_AFTER)
    for offset in range(3 * GIVE_UP_AFTER):
        session = store.opens()
        store.hears(session, offset, Outcome.CONFIRMED)
        store.loses(session)
    assert {outcome for _, outcome, _ in store.ends} == {"confirmed"}


def test_what_we_end_ourselves_says_nothing_against_what_was_open(store: Store) -> None:
    store.owes()
    for _ in range(5 * GIVE_UP_AFTER):
        store.closes(store.opens())
    assert store.ends == []


def test_of_more_than_one_that_is_open_none_is_given_up() -> None:
    suspicion = PoisonDetector()
    open_ = [EgressDelivery(f"0-{at}-0", Kind.EVENT, "s", b"") for at in range(2)]
    assert [suspicion.ended(open_) for _ in range(3 * GIVE_UP_AFTER)] == [None] * 3 * GIVE_UP_AFTER
    assert suspicion.ended(open_[:1]) is open_[0]


def test_a_session_that_leaves_one_unanswered_is_trusted_with_the_next(store: Store) -> None:
    store.owes(2)
    for _ in range(WARY_AFTER):
        store.loses(store.opens())
    session = store.opens()
    assert session.offsets == [0]
    store.hears(session, 0, Outcome.UNDELIVERABLE)  # it never answered
    assert session.offsets == [0, 1]

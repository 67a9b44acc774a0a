"""Tests what is owed to nodes: kept while they are away, given once to each session, over in one of four ways."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.edge.delivery.redelivery import DELIVERY_BYTES, MOST_UNCONFIRMED, OWED_TOO_LONG
from gateway.protocols.actions import Delivered, Outcome
from tests.unit.edge.delivery.queue_store import PATIENCE, FakeSession, Store


def test_a_node_that_is_there_gets_what_it_is_owed_at_once_and_in_order(store: Store) -> None:
    session = store.opens()
    store.owes(3)
    assert session.offsets == [0, 1, 2]
    store.hears(session, 1, Outcome.CONFIRMED)
    assert store.ends == [(1, "confirmed", "said")]


def test_a_node_that_comes_back_gets_what_it_missed_in_order(store: Store) -> None:
    store.closes(store.opens())
    store.owes(3)
    assert len(store.owed) == 3
    store.waits(PATIENCE - 1)
    assert store.opens().offsets == [0, 1, 2]


def test_what_a_session_did_not_confirm_goes_to_the_next_one_and_what_it_confirmed_does_not(store: Store) -> None:
    first = store.opens()
    store.owes(4)
    store.hears(first, 1, Outcome.CONFIRMED)
    store.hears(first, 0, Outcome.UNDELIVERABLE)  # it never answered
    store.owes()
    assert first.offsets == [0, 1, 2, 3, 4]  # and not 0 again in the same session
    store.hears(first, 2, Outcome.UNDELIVERABLE)  # the session ended first
    store.closes(first)
    assert store.opens().offsets == [0, 2, 3, 4]


def test_deliveries_of_one_egress_record_are_kept_apart(store: Store) -> None:
    first = store.opens()
    store.owes(3, record=0)
    [_, middle, _] = [one.event_id for one in first.got]
    store.owed.delivered(first, Delivered(first.got[1], Outcome.CONFIRMED))
    store.closes(first)
    assert [one.event_id for one in store.opens().got] == ["0-0-0", "0-2-0"]
    assert (middle, store.ends) == ("0-1-0", [(0, "confirmed", "")])


def test_what_the_peer_refuses_is_not_tried_again(store: Store) -> None:
    session = store.opens()
    store.owes()
    store.hears(session, 0, Outcome.UNDELIVERABLE, refused=True)
    store.closes(session)
    assert store.ends == [(0, "undeliverable", "said")]
    assert store.opens().offsets == []


def test_a_newer_session_of_a_node_takes_over_and_an_older_one_is_not_heard_any_more(store: Store) -> None:
    old = store.opens()
    store.owes(2)
    new = store.opens()
    assert new.offsets == [0, 1]
    store.hears(old, 0, Outcome.UNDELIVERABLE)
    store.closes(old)
    store.hears(new, 0, Outcome.CONFIRMED)
    store.waits(10 * PATIENCE)
    assert store.ends == [(0, "confirmed", "said")]


def test_what_waits_since_too_long_ago_is_given_up_and_what_is_under_way_is_not(store: Store) -> None:
    away, there = "plc-8", store.opens()
    store.owes(2, node=away)  # 0, 1
    store.owes(3)  # 2, 3, 4
    store.owes(node=away)  # 5
    store.hears(there, 3, Outcome.UNDELIVERABLE)  # it never answered
    store.hears(there, 4, Outcome.UNDELIVERABLE)
    store.owed.give_up_before(4)
    assert store.ends == [(at, "undeliverable", OWED_TOO_LONG) for at in (3, 0, 1)]
    store.closes(there)
    assert store.opens().offsets == [2, 4]
    assert store.opens(away).offsets == [5]


def test_what_is_owed_by_a_listener_or_link_that_is_gone_from_the_configuration_ends_at_once() -> None:
    store, session = Store(), FakeSession()
    store.owed.opened(session)
    store.owes()
    store.owed.closed(session)
    store.patience = 0.0
    store.waits(0.1)
    assert [outcome for _, outcome, _ in store.ends] == ["expired"]


def test_a_node_that_does_not_come_back_in_time_is_owed_nothing_more(store: Store) -> None:
    store.closes(store.opens())
    store.owes(2)
    store.waits(PATIENCE - 0.1)
    assert store.ends == []
    store.waits(0.1)
    assert [(offset, outcome) for offset, outcome, _ in store.ends] == [(0, "expired"), (1, "expired")]
    assert (len(store.owed), store.owed.bytes) == (0, 0)


def test_a_node_that_was_never_seen_is_waited_for_as_long_as_its_listener_says(store: Store) -> None:
    store.owes()
    store.waits(PATIENCE - 0.1)
    assert store.ends == []
    store.waits(0.1)
    assert [outcome for _, outcome, _ in store.ends] == ["expired"]


def test_more_than_the_bound_of_a_node_is_undeliverable_and_costs_no_other_node() -> None:
    store = Store(node_bytes=10 * (DELIVERY_BYTES + len("s") + 10))
    store.owes(10)
    assert store.ends == []
    store.owes(size=0)
    assert store.ends == [(10, "undeliverable", "too much is owed already")]
    store.owes(10, node="plc-8")
    assert len(store.ends) == 1


def test_more_than_the_bound_of_all_is_undeliverable() -> None:
    store = Store(total_bytes=10 * (DELIVERY_BYTES + len("s") + 10))
    store.owes(5)
    store.owes(5, node="plc-8")
    store.owes(node="plc-9")
    assert store.ends == [(10, "undeliverable", "too much is owed already")]


def test_what_is_over_makes_room() -> None:
    store = Store(node_bytes=10 * (DELIVERY_BYTES + len("s") + 10))
    session = store.opens()
    store.owes(10)
    for offset in range(10):
        store.hears(session, offset, Outcome.CONFIRMED)
    store.owes(10)
    assert {outcome for _, outcome, _ in store.ends} == {"confirmed"}


def test_a_session_has_so_many_open_at_once_and_no_more(store: Store) -> None:
    session = store.opens()
    store.owes(MOST_UNCONFIRMED + 2, size=1)
    assert len(session.got) == MOST_UNCONFIRMED
    store.hears(session, 5, Outcome.CONFIRMED)
    assert session.offsets[-1] == MOST_UNCONFIRMED


def test_a_session_whose_queue_is_full_is_asked_again_later(store: Store) -> None:
    session = store.opens()
    session.queued_bytes = 501
    store.owes(2)
    assert session.got == []
    session.queued_bytes = 500
    store.later.pop()()
    assert session.offsets == [0, 1]


class Life(RuleBasedStateMachine):
    """Sessions of one node come and go, confirm, refuse and forget: whatever they do, each delivery has one end, and no
    session gets one twice or one before another."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.sessions: list[FakeSession] = []

    @rule(count=st.integers(1, 3))
    def owe(self, count: int) -> None:
        self.store.owes(count)

    @rule(is_alive=st.booleans())
    def open(self, is_alive: bool) -> None:
        self.sessions.append(self.store.opens(is_alive=is_alive))

    @rule()
    def come_to_life(self) -> None:
        for session in self.sessions:
            session.is_alive = True
        while self.store.later:
            self.store.later.pop()()

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), by_peer=st.booleans())
    def close(self, data: st.DataObject, by_peer: bool) -> None:
        session = data.draw(st.sampled_from(self.sessions))
        self.sessions.remove(session)
        (self.store.loses if by_peer else self.store.closes)(session)

    @precondition(lambda self: any(session.got for session in self.sessions))
    @rule(data=st.data(), outcome=st.sampled_from(Outcome), refused=st.booleans())
    def hear(self, data: st.DataObject, outcome: Outcome, refused: bool) -> None:
        session = data.draw(st.sampled_from([one for one in self.sessions if one.got]))
        offset = data.draw(st.sampled_from(session.offsets))
        self.store.hears(session, offset, outcome, refused=refused)

    @rule(seconds=st.floats(0, PATIENCE))
    def wait(self, seconds: float) -> None:
        self.store.waits(seconds)

    @rule(move=st.sampled_from("abc"))
    def expect(self, move: str) -> None:
        self.store.expects(move)

    @rule(move=st.sampled_from("abc"))
    def arrive(self, move: str) -> None:
        self.store.arrives(move)

    @invariant()
    def each_session_gets_each_delivery_once_and_in_order(self) -> None:
        for session in self.sessions:
            assert session.offsets == sorted(set(session.offsets))

    @invariant()
    def each_delivery_ends_once(self) -> None:
        ended = [offset for offset, _, _ in self.store.ends]
        assert len(ended) == len(set(ended))

    def teardown(self) -> None:
        for session in self.sessions:
            self.store.closes(session)
        self.store.waits(10 * PATIENCE)
        assert sorted(offset for offset, _, _ in self.store.ends) == list(range(self.store.next_offset))
        assert self.store.owed.bytes == 0


Life.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestLife = Life.TestCase

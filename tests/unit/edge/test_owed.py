"""What is owed to nodes: kept while they are away, given once to each session, over in one of four ways."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.config import Limits
from gateway.edge.connection import Terms
from gateway.edge.delivery import HandedDelivery
from gateway.edge.owed import GIVEN_AT_ONCE, Owed
from gateway.edge.suspicion import GIVE_UP_AFTER, GIVEN_UP, WARY_AFTER, Suspicion
from gateway.event import Kind
from gateway.protocols.session import Delivered, Delivery, Outcome
from gateway.raw_log.frames import Source

NODE, PATIENCE, REDELIVER = "plc-7", 50.0, 30
WAIT = 20.0
End = tuple[int, str, str]


def name_of(node: str) -> str:
    return f"node:{node}@plc"


@dataclass(eq=False)
class FakeSession:
    """Of one node; takes what it is given."""

    node: str = NODE
    number: int = 1
    queued_bytes: int = 0
    is_over: bool = False
    was_lost: bool = False
    is_alive: bool = True
    asked: bool = False
    aborted: bool = False
    got: list[HandedDelivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = Source("hsp", "plc", "edge-0", 1, self.number, "192.0.2.1:1", self.node)
        self.terms = Terms("plc", Limits(queue_bytes=1_000), redeliver_seconds=REDELIVER)

    def deliver(self, delivery: Delivery) -> None:
        assert isinstance(delivery, HandedDelivery)
        self.got.append(delivery)

    def answers(self) -> bool:
        self.asked = True
        return self.is_alive

    def abort(self) -> None:
        self.aborted = True

    @property
    def offsets(self) -> list[int]:
        return [one.offset for one in self.got]


@dataclass
class Store:
    """The store with a clock that moves only when told; what is to be done soon is done at once, in its order."""

    now: float = 100.0
    ends: list[End] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    soon: deque[Callable[[], None]] = field(default_factory=deque)
    later: list[Callable[[], None]] = field(default_factory=list)
    node_bytes: int = 1_000_000
    total_bytes: int = 1_000_000
    next_offset: int = 0

    def __post_init__(self) -> None:
        self.owed = Owed(
            self._end, lambda _: PATIENCE, lambda: self.now, self._later,
            node_bytes=self.node_bytes, total_bytes=self.total_bytes,
        )  # fmt: skip

    def _end(self, delivery: HandedDelivery, outcome: Outcome, detail: str) -> None:
        self.ends.append((delivery.offset, outcome.value, detail))

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        (self.later if seconds else self.soon).append(do)

    def owes(
        self, count: int = 1, *, node: str = NODE, size: int = 10, partition: int = 0, given: bool = False
    ) -> None:
        for _ in range(count):
            at, self.next_offset = self.next_offset, self.next_offset + 1
            self.owed.add(
                HandedDelivery(
                    f"0-{at}-0",
                    Kind.EVENT,
                    "s",
                    bytes(size),
                    offset=at,
                    protocol="hsp",
                    owed_to=name_of(node),
                    partition=partition,
                    given=given,
                )
            )
        self.works()

    def opens(self, node: str = NODE, number: int = 1, *, is_alive: bool = True) -> FakeSession:
        session = FakeSession(node, number, is_alive=is_alive)
        self.owed.opened(session)
        self.works()
        return session

    def closes(self, session: FakeSession) -> None:
        session.is_over = True
        for delivery in session.got:  # as a session does with what it still has
            self.owed.delivered(session, Delivered(delivery, Outcome.UNDELIVERABLE, "the session ended first"))
        self.owed.closed(session)
        self.works()

    def loses(self, session: FakeSession) -> None:
        """It is the peer that ends it."""
        session.was_lost = True
        self.closes(session)

    def breaks_on(self, poison: int, most_sessions: int) -> int:
        """A node that confirms what it gets, but ends a session that brings it that one, before its word on what came
        with it. How many sessions it had."""
        for count in range(1, most_sessions + 1):
            session = self.opens()
            for delivery in session.got:
                if poison not in session.offsets:
                    self.hears(session, delivery.offset, Outcome.CONFIRMED)
            if poison not in session.offsets:
                return count
            self.loses(session)
        return most_sessions

    def hears(self, session: FakeSession, offset: int, outcome: Outcome, *, refused: bool = False) -> None:
        delivery = next(one for one in session.got if one.offset == offset)
        self.owed.delivered(session, Delivered(delivery, outcome, "said", refused))
        self.works()

    def takes_out(self, partition: int = 0, left: str = "edge-0.1.1") -> list[int]:
        taken = self.owed.take_out(name_of(NODE), partition, left)
        self.works()
        return [one.offset for one in taken]

    def expects(self, move: str, *, partition: int = 0) -> None:
        def over() -> None:
            self.over.append(move)

        self.owed.expect(name_of(NODE), partition, move, self.now + WAIT, over)

    def arrives(self, move: str, *, partition: int = 0) -> None:
        self.owed.arrived(name_of(NODE), partition, move)
        self.works()

    def waits(self, seconds: float) -> None:
        self.now += seconds
        self.owed.expire()
        self.works()

    def works(self) -> None:
        while self.soon:
            self.soon.popleft()()


def test_a_node_that_is_there_gets_what_it_is_owed_at_once_and_in_order() -> None:
    store = Store()
    session = store.opens()
    store.owes(3)
    assert session.offsets == [0, 1, 2]
    store.hears(session, 1, Outcome.CONFIRMED)
    assert store.ends == [(1, "confirmed", "said")]


def test_a_node_that_comes_back_gets_what_it_missed_in_order() -> None:
    store = Store()
    store.closes(store.opens())
    store.owes(3)
    assert len(store.owed) == 3
    store.waits(REDELIVER - 1)
    assert store.opens().offsets == [0, 1, 2]


def test_what_a_session_did_not_confirm_goes_to_the_next_one_and_what_it_confirmed_does_not() -> None:
    store = Store()
    first = store.opens()
    store.owes(4)
    store.hears(first, 1, Outcome.CONFIRMED)
    store.hears(first, 0, Outcome.UNDELIVERABLE)  # it never answered
    store.owes()
    assert first.offsets == [0, 1, 2, 3, 4]  # and not 0 again in the same session
    store.hears(first, 2, Outcome.UNDELIVERABLE)  # the session ended first
    store.closes(first)
    assert store.opens().offsets == [0, 2, 3, 4]


def test_what_the_peer_refuses_is_not_tried_again() -> None:
    store = Store()
    session = store.opens()
    store.owes()
    store.hears(session, 0, Outcome.UNDELIVERABLE, refused=True)
    store.closes(session)
    assert store.ends == [(0, "undeliverable", "said")]
    assert store.opens().offsets == []


def test_what_a_node_breaks_on_is_given_up_and_costs_it_nothing_else() -> None:
    store = Store()
    store.owes(8)
    sessions = store.breaks_on(3, 20)
    assert [end for end in store.ends if end[1] != "confirmed"] == [(3, "undeliverable", GIVEN_UP)]
    assert sessions == 1 + WARY_AFTER + GIVE_UP_AFTER  # the first ones end with a better one open as the oldest
    assert sorted(offset for offset, _, _ in store.ends) == list(range(8))
    assert (len(store.owed), store.owed.bytes) == (0, 0)


def test_a_node_that_only_seems_to_be_there_loses_nothing() -> None:
    """Behind a balancer, say, which accepts and hangs up for want of anybody to pass it on to."""
    store = Store()
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


def test_a_node_that_comes_and_goes_loses_nothing_of_what_it_gets_on_with() -> None:
    store = Store()
    store.owes(3 * GIVE_UP_AFTER)
    for offset in range(3 * GIVE_UP_AFTER):
        session = store.opens()
        store.hears(session, offset, Outcome.CONFIRMED)
        store.loses(session)
    assert {outcome for _, outcome, _ in store.ends} == {"confirmed"}


def test_what_we_end_ourselves_says_nothing_against_what_was_open() -> None:
    store = Store()
    store.owes()
    for _ in range(5 * GIVE_UP_AFTER):
        store.closes(store.opens())
    assert store.ends == []


def test_of_more_than_one_that_is_open_none_is_given_up() -> None:
    suspicion = Suspicion()
    open_ = [HandedDelivery(f"0-{at}-0", Kind.EVENT, "s", b"") for at in range(2)]
    assert [suspicion.ended(open_) for _ in range(3 * GIVE_UP_AFTER)] == [None] * 3 * GIVE_UP_AFTER
    assert suspicion.ended(open_[:1]) is open_[0]


def test_a_session_that_leaves_one_unanswered_is_trusted_with_the_next() -> None:
    store = Store()
    store.owes(2)
    for _ in range(WARY_AFTER):
        store.loses(store.opens())
    session = store.opens()
    assert session.offsets == [0]
    store.hears(session, 0, Outcome.UNDELIVERABLE)  # it never answered
    assert session.offsets == [0, 1]


def test_a_newer_session_of_a_node_takes_over_and_an_older_one_is_not_heard_any_more() -> None:
    store = Store()
    old = store.opens()
    store.owes(2)
    new = store.opens()
    assert new.offsets == [0, 1]
    store.hears(old, 0, Outcome.UNDELIVERABLE)
    store.closes(old)
    store.hears(new, 0, Outcome.CONFIRMED)
    store.waits(10 * PATIENCE)
    assert store.ends == [(0, "confirmed", "said")]


def test_a_node_that_does_not_come_back_in_time_is_owed_nothing_more() -> None:
    store = Store()
    store.closes(store.opens())
    store.owes(2)
    store.waits(REDELIVER - 0.1)
    assert store.ends == []
    store.waits(0.1)
    assert [(offset, outcome) for offset, outcome, _ in store.ends] == [(0, "expired"), (1, "expired")]
    assert (len(store.owed), store.owed.bytes) == (0, 0)


def test_a_node_that_was_never_seen_is_waited_for_as_long_as_its_listener_says() -> None:
    store = Store()
    store.owes()
    store.waits(PATIENCE - 0.1)
    assert store.ends == []
    store.waits(0.1)
    assert [outcome for _, outcome, _ in store.ends] == ["expired"]


def test_more_than_the_bound_of_a_node_is_undeliverable_and_costs_no_other_node() -> None:
    store = Store(node_bytes=100)
    store.owes(10)
    assert store.ends == []
    store.owes()
    assert store.ends == [(10, "undeliverable", "too much is owed already")]
    store.owes(10, node="plc-8")
    assert len(store.ends) == 1


def test_more_than_the_bound_of_all_is_undeliverable() -> None:
    store = Store(total_bytes=100)
    store.owes(5)
    store.owes(5, node="plc-8")
    store.owes(node="plc-9")
    assert store.ends == [(10, "undeliverable", "too much is owed already")]


def test_what_is_over_makes_room() -> None:
    store = Store(node_bytes=100)
    session = store.opens()
    store.owes(10)
    for offset in range(10):
        store.hears(session, offset, Outcome.CONFIRMED)
    store.owes(10)
    assert {outcome for _, outcome, _ in store.ends} == {"confirmed"}


def test_a_session_has_so_many_open_at_once_and_no_more() -> None:
    store = Store()
    session = store.opens()
    store.owes(GIVEN_AT_ONCE + 2, size=1)
    assert len(session.got) == GIVEN_AT_ONCE
    store.hears(session, 5, Outcome.CONFIRMED)
    assert session.offsets[-1] == GIVEN_AT_ONCE


def test_a_session_whose_queue_is_full_is_asked_again_later() -> None:
    store = Store()
    session = store.opens()
    session.queued_bytes = 501
    store.owes(2)
    assert session.got == []
    session.queued_bytes = 500
    store.later.pop()()
    assert session.offsets == [0, 1]


# -- a node that comes back at another edge --------------------------------------------------------------------


def test_what_is_owed_of_a_partition_is_taken_out_in_order_and_nothing_else_is() -> None:
    store = Store()
    store.owes(2)
    store.owes(partition=1)
    store.owes()
    assert store.takes_out() == [0, 1, 3]
    assert store.opens().offsets == [2]
    assert store.takes_out(left="edge-0.1.0") == []


def test_the_session_that_the_node_has_left_is_ended_and_what_it_did_not_confirm_is_taken_out() -> None:
    store = Store()
    left = store.opens(number=4)
    store.owes(3)
    store.hears(left, 1, Outcome.CONFIRMED)
    assert store.takes_out(left="edge-0.1.4") == [0, 2]
    assert left.aborted
    store.hears(left, 0, Outcome.CONFIRMED)
    assert store.ends == [(1, "confirmed", "said")]
    assert store.owed.bytes == 0


def test_a_session_that_is_newer_than_the_one_the_node_has_left_keeps_what_it_is_owed() -> None:
    store = Store()
    newer = store.opens(number=5)
    store.owes(2)
    assert store.takes_out(left="edge-0.1.4") == []
    assert not newer.aborted
    store.hears(newer, 0, Outcome.CONFIRMED)
    assert store.ends == [(0, "confirmed", "said")]


def test_what_is_new_goes_behind_what_the_other_edge_has_owed() -> None:
    store = Store()
    session = store.opens()
    store.expects("1-7-0")
    store.owes(2)
    store.owes(given=True)
    assert session.offsets == [2]
    store.owes(partition=1)  # another partition: its order is another
    assert session.offsets == [2, 3]
    store.arrives("0-0-0")  # of another move
    assert store.over == []
    store.arrives("1-7-0")
    assert session.offsets == [2, 3, 0, 1]
    assert store.over == ["1-7-0"]


def test_another_edge_is_not_waited_for_for_ever() -> None:
    store = Store()
    session = store.opens()
    store.expects("1-7-0")
    store.owes(2)
    store.waits(WAIT - 0.1)
    assert session.offsets == []
    store.waits(0.1)
    assert session.offsets == [0, 1]
    assert store.over == ["1-7-0"]


def test_a_node_that_moves_on_before_it_has_all_takes_that_along_too() -> None:
    store = Store()
    store.expects("1-7-0")
    store.owes(given=True)
    store.owes()
    assert store.takes_out() == [0, 1]
    assert (store.over, len(store.owed)) == (["1-7-0"], 0)


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

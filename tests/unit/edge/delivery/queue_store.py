"""Keeps what is owed to nodes, with sessions that take what they are given, for the tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.config import Limits
from gateway.core.event import Kind
from gateway.edge.delivery.egress_delivery import EgressDelivery
from gateway.edge.delivery.redelivery import RedeliveryQueues
from gateway.edge.session_terms import SessionTerms
from gateway.protocols.actions import Delivered, Delivery, Outcome
from gateway.records.raw_log.frames import FrameSource

NODE, PATIENCE = "plc-7", 50.0
WAIT = 20.0
End = tuple[int, str, str]


def name_of(node: str) -> str:
    return f"node:{node}@plc"


@dataclass(eq=False)
class FakeSession:
    """Stands for the session of one node; it takes what it is given."""

    node: str = NODE
    number: int = 1
    queued_bytes: int = 0
    is_over: bool = False
    ended_by_peer: bool = False
    is_alive: bool = True
    asked: bool = False
    aborted: bool = False
    got: list[EgressDelivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = FrameSource("hsp", "plc", "edge-0", 1, self.number, "192.0.2.1:1", self.node)
        self.terms = SessionTerms("plc", Limits(queue_bytes=1_000), redeliver_seconds=int(PATIENCE))

    def deliver(self, delivery: Delivery) -> None:
        assert isinstance(delivery, EgressDelivery)
        self.got.append(delivery)

    @property
    def outbox(self) -> FakeSession:
        return self

    def ping_if_silent(self) -> bool:
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
    patience: float = PATIENCE
    ends: list[End] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    soon: deque[Callable[[], None]] = field(default_factory=deque)
    later: list[Callable[[], None]] = field(default_factory=list)
    node_bytes: int = 1_000_000
    total_bytes: int = 1_000_000
    next_offset: int = 0

    def __post_init__(self) -> None:
        self.owed = RedeliveryQueues(
            self._end, lambda _: self.patience, lambda: self.now, self._later,
            node_bytes=self.node_bytes, total_bytes=self.total_bytes,
        )  # fmt: skip

    def _end(self, delivery: EgressDelivery, outcome: Outcome, detail: str) -> None:
        self.ends.append((delivery.offset, outcome.value, detail))

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        (self.later if seconds else self.soon).append(do)

    def owes(
        self, count: int = 1, *, node: str = NODE, size: int = 10, partition: int = 0, is_migrated: bool = False,
        record: int | None = None,
    ) -> None:  # fmt: skip
        """`record`: the offset of the egress record that holds all of them; each has one of its own otherwise."""
        for _ in range(count):
            at, self.next_offset = self.next_offset, self.next_offset + 1
            self.owed.add(
                EgressDelivery(
                    f"0-{at}-0",
                    Kind.EVENT,
                    "s",
                    bytes(size),
                    offset=at if record is None else record,
                    protocol="hsp",
                    owed_to=name_of(node),
                    partition=partition,
                    is_migrated=is_migrated,
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
        session.ended_by_peer = True
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

"""Deliveries that are owed to nodes: kept while a node is away, delivered to its session when it comes back.

                 add                    the session's window has room
    (owed) ──────────────► waiting ───────────────────────────────────► delivered ─► confirmed, written, refused: over
                              ▲  ▲                                       │ │
                              │  └── the session ended, or never said ─────┘ └─► sessions end on it: undeliverable
                              │      (again at the next session)                 (see `poison`)
                              └── no session for `redeliver_seconds`: expired
                                  ten million others have ended since: undeliverable

A node that comes back at another edge takes what it is owed along (see `migration`): it is taken out here, and arrives
there, where what is new is held back until then.

What is kept here is a copy. The original stands in the egress topic, whose committed offset does not pass it (see
`offset_tracker`), so a killed edge finds it again; here it is bounded, and beyond the bound undeliverable.

Invariants
1. A session gets what is owed to its node in the order it was owed, and each of it once.
2. A delivery is waiting, held, delivered, or over. It is delivered to the node's newest session alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.core.ids import SessionId
from gateway.edge.delivery.egress_delivery import DeliveryKey, EgressDelivery
from gateway.edge.delivery.poison import GIVEN_UP, PoisonDetector
from gateway.edge.session_terms import SessionTerms
from gateway.protocols.actions import Delivered, Delivery, Outcome
from gateway.records.raw_log.frames import FrameSource

MOST_UNCONFIRMED = 1_024
"""Delivered to a session and not yet confirmed: enough for a long line, and little to say again after a broken one."""
DELIVERY_BYTES = 512
"""Charged for each delivery beside its frame and subject, for its fields and its places in queues. Without it, the
frames of eleven bytes that fill the bound of one node would take half a gigabyte."""
OWED_TOO_LONG = "too many other owed deliveries have ended since"
FULL_SECONDS = 0.05
"""The pause before a session whose queue is full, or that gives no sign of life, is tried again."""


class QueueOutbox(Protocol):
    """The outbox of a session, as far as queues need it."""

    @property
    def queued_bytes(self) -> int: ...
    def deliver(self, delivery: Delivery) -> None: ...


class Receiving(Hashable, Protocol):
    """A connection, as it is seen here."""

    terms: SessionTerms

    @property
    def source(self) -> FrameSource: ...
    @property
    def outbox(self) -> QueueOutbox: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def ended_by_peer(self) -> bool:
        """True if the session is over and we did not end it."""

    def ping_if_silent(self) -> bool:
        """Returns True if the peer has given a sign of life. If not, it is asked for one."""

    def abort(self) -> None: ...


@dataclass(slots=True)
class _IncomingMigration:
    """Waits for what another edge owes of one raw partition.

    `held` is what came meanwhile and goes behind it. `over` is called when that is done.
    """

    move: str
    until: float
    over: Callable[[], None]
    held: deque[EgressDelivery] = field(default_factory=deque)


End = Callable[[EgressDelivery, Outcome, str], None]
"""Told when a delivery is over: it, what became of it, and why."""
Later = Callable[[float, Callable[[], None]], object]


@dataclass(slots=True)
class _NodeQueue:
    """Everything that is owed to one node. `away_since` counts while there is no connection."""

    away_since: float
    connection: Receiving | None = None
    waiting: deque[EgressDelivery] = field(default_factory=deque)
    unconfirmed: dict[DeliveryKey, EgressDelivery] = field(default_factory=dict)
    returned: set[DeliveryKey] = field(default_factory=set)
    arrivals: dict[int, _IncomingMigration] = field(default_factory=dict)
    suspicion: PoisonDetector = field(default_factory=PoisonDetector)
    is_due: bool = False

    def __len__(self) -> int:
        """Returns how many deliveries wait."""
        return len(self.waiting) + len(self.returned) + sum(len(migration.held) for migration in self.arrivals.values())

    @property
    def has_window(self) -> bool:
        """True if the session may take one more."""
        return len(self.unconfirmed) - len(self.returned) < (1 if self.suspicion.is_cautious else MOST_UNCONFIRMED)

    def take_back(self) -> None:
        """Puts open deliveries back where they stood.

        What the old session still says of them is ignored: they belong to another session by then.
        """
        self.waiting.extendleft(reversed(self.unconfirmed.values()))
        self.unconfirmed.clear()
        self.returned.clear()

    def release(self, partition: int) -> None:
        """Lets go what was held."""
        if (arrival := self.arrivals.pop(partition, None)) is not None:
            self.waiting.extend(arrival.held)
            arrival.over()


class RedeliveryQueues:
    """Keeps what each node is owed, and delivers it again.

    `patience(name)`: how long a node is waited for that was not seen since this edge began.

    `node_bytes` may wait for one node, `total_bytes` for all. `clock` gives seconds, monotonic; `later` calls back.
    """

    def __init__(
        self,
        end: End,
        patience: Callable[[str], float],
        clock: Callable[[], float],
        later: Later,
        *,
        node_bytes: int,
        total_bytes: int,
    ) -> None:
        self._end = end
        self._patience = patience
        self._clock = clock
        self._later = later
        self._node_bytes, self._total_bytes = node_bytes, total_bytes
        self._queues: dict[str, _NodeQueue] = {}
        self._bytes: dict[str, int] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """Returns how many deliveries wait for a node."""
        return sum(map(len, list(self._queues.values())))

    def add(self, delivery: EgressDelivery) -> None:
        name = delivery.owed_to
        queue = self._queue_of(name)
        size = _cost(delivery)
        if self._bytes.get(name, 0) + size > self._node_bytes or self.bytes + size > self._total_bytes:
            self._end(delivery, Outcome.UNDELIVERABLE, "too much is owed already")
            return
        self._weigh(name, size)
        arrival = None if delivery.is_migrated else queue.arrivals.get(delivery.partition)
        (queue.waiting if arrival is None else arrival.held).append(delivery)
        self._deliver_soon(queue)

    def _queue_of(self, name: str) -> _NodeQueue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _NodeQueue(self._clock())
        return queue

    def is_here(self, name: str) -> bool:
        """Returns True if the node has a session."""
        queue = self._queues.get(name)
        return queue is not None and queue.connection is not None

    def opened(self, connection: Receiving) -> None:
        """Takes the node's new session. It takes over what an older one has not confirmed."""
        queue = self._queues.setdefault(connection.source.durable_name, _NodeQueue(0.0))
        queue.connection = connection
        queue.take_back()
        self._deliver_soon(queue)

    def closed(self, connection: Receiving) -> None:
        queue = self._queues.get(connection.source.durable_name)
        if queue is not None and queue.connection is connection:
            queue.connection = None
            if connection.ended_by_peer:
                self._suspect(queue)
            queue.take_back()
            queue.away_since = self._clock()

    def _suspect(self, queue: _NodeQueue) -> None:
        """Something that was open may be what the session ended on."""
        given_up = queue.suspicion.ended(
            [delivery for delivery in queue.unconfirmed.values() if delivery.key not in queue.returned]
        )
        if given_up is not None:
            self._over(queue, given_up, Outcome.UNDELIVERABLE, GIVEN_UP)

    def delivered(self, connection: Receiving, end: Delivered) -> None:
        """Notes that the session is done with a delivery that it has got."""
        delivery = end.delivery
        if not isinstance(delivery, EgressDelivery):
            return
        queue = self._queues.get(delivery.owed_to)
        if queue is None or queue.connection is not connection or delivery.key not in queue.unconfirmed:
            return
        if end.outcome is not Outcome.UNDELIVERABLE or end.refused:
            self._over(queue, delivery, end.outcome, end.detail)
        elif not connection.is_over:  # else it is taken back when that is told
            queue.returned.add(delivery.key)
            queue.suspicion.finished()
        self._deliver_soon(queue)

    def _over(self, queue: _NodeQueue, delivery: EgressDelivery, outcome: Outcome, detail: str) -> None:
        del queue.unconfirmed[delivery.key]
        queue.suspicion.finished()
        self._weigh(delivery.owed_to, -_cost(delivery))
        self._end(delivery, outcome, detail)

    def expire(self) -> None:
        """Ends what is owed to nodes that stayed away too long. Called now and then."""
        now = self._clock()
        for name, queue in list(self._queues.items()):
            for partition in [number for number, migration in queue.arrivals.items() if now >= migration.until]:
                queue.release(partition)
                self._deliver_soon(queue)
            if queue.connection is None and now >= queue.away_since + self._patience(name):
                self._forget(name, queue)

    def _forget(self, name: str, queue: _NodeQueue) -> None:
        del self._queues[name]
        for partition in list(queue.arrivals):
            queue.release(partition)
        for delivery in queue.waiting:
            self._weigh(name, -_cost(delivery))
            self._end(delivery, Outcome.EXPIRED, "the node did not come back in time")

    def give_up_before(self, offset: int) -> None:
        """Ends what waits since an egress record before this one: what a restart would have to read is bounded.

        What a session has been given and may still confirm is left alone: the session ends that soon.
        """
        for name, queue in self._queues.items():
            not_confirmed = sorted(key for key in queue.returned if key[0] < offset)
            queue.returned.difference_update(not_confirmed)
            given_up = [queue.unconfirmed.pop(key) for key in not_confirmed]
            given_up += [delivery for delivery in queue.waiting if delivery.offset < offset]
            queue.waiting = deque(delivery for delivery in queue.waiting if delivery.offset >= offset)
            for delivery in given_up:
                self._weigh(name, -_cost(delivery))
                self._end(delivery, Outcome.UNDELIVERABLE, OWED_TOO_LONG)

    # -- from one edge to another ------------------------------------------------------------------------------

    def take_out(self, name: str, partition: int, left: str) -> list[EgressDelivery]:
        """Takes out what is owed of a raw partition, for another edge. A session newer than `left` keeps it."""
        queue = self._queues.get(name)
        if queue is None or not self._leaves(queue, left):
            return []
        queue.take_back()
        queue.release(partition)
        leaving = [delivery for delivery in queue.waiting if delivery.partition == partition]
        queue.waiting = deque(delivery for delivery in queue.waiting if delivery.partition != partition)
        for delivery in leaving:
            self._weigh(name, -_cost(delivery))
            if delivery.awaited is not None:
                delivery.awaited.ended(Outcome.EXPIRED)
                delivery.awaited = None
        return leaving

    def _leaves(self, queue: _NodeQueue, left: str) -> bool:
        """Ends the session that the node has left, should it still stand here; False if it has a newer one."""
        connection = queue.connection
        if connection is None:
            return True
        session = SessionId.parse(left)
        if (connection.source.epoch, connection.source.session) > (session.epoch, session.number):
            return False
        queue.connection = None
        queue.away_since = self._clock()
        self._later(0.0, connection.abort)
        return True

    def expect(self, name: str, partition: int, move: str, until: float, over: Callable[[], None]) -> None:
        """Expects what another edge owes the node of this raw partition. It goes before what is new."""
        queue = self._queue_of(name)
        queue.release(partition)
        queue.arrivals[partition] = _IncomingMigration(move, until, over)

    def arrived(self, name: str, partition: int, move: str) -> None:
        """Notes that everything this move brings is here."""
        queue = self._queues.get(name)
        if queue is not None and (arrival := queue.arrivals.get(partition)) is not None and arrival.move == move:
            queue.release(partition)
            self._deliver_soon(queue)

    # -- delivering --------------------------------------------------------------------------------------------

    def _deliver_soon(self, queue: _NodeQueue, seconds: float = 0.0) -> None:
        """Delivers what the node is owed, but never from within a call of its session."""
        if not queue.is_due and queue.connection is not None and queue.waiting:
            queue.is_due = True
            self._later(seconds, lambda: self._deliver(queue))

    def _deliver(self, queue: _NodeQueue) -> None:
        queue.is_due = False
        connection = queue.connection
        while connection is not None and queue.waiting and queue.has_window:
            is_full = connection.outbox.queued_bytes > connection.terms.limits.queue_bytes // 2
            if is_full or (queue.suspicion.is_cautious and not connection.ping_if_silent()):
                self._deliver_soon(queue, FULL_SECONDS)
                return
            delivery = queue.waiting.popleft()
            queue.unconfirmed[delivery.key] = delivery
            connection.outbox.deliver(delivery)

    def _weigh(self, name: str, size: int) -> None:
        self.bytes += size
        left = self._bytes.get(name, 0) + size
        if left > 0:
            self._bytes[name] = left
        else:
            self._bytes.pop(name, None)


def _cost(delivery: EgressDelivery) -> int:
    """Returns how many bytes of a bound the delivery takes."""
    return DELIVERY_BYTES + len(delivery.subject) + len(delivery.frame)

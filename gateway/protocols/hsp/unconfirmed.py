"""The MessageIDs of what we sent, until the peer has acknowledged them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from gateway.core.event import Kind
from gateway.protocols.actions import Delivery
from gateway.protocols.recent_ids import RecentIds

MAX_UNCONFIRMED = 65_536
"""Open ids of one kind, and given-up ids that are remembered. No peer is so far behind in the seconds it has to ACK."""

MAX_UNCONFIRMED_BYTES = 16_777_216
"""Frames that wait for an ACK: as much as one session may have to read, twice. A peer that reads and acknowledges is at
most a round trip behind; one that only reads could else make us keep all that it is sent in half a minute."""
ENTRY_BYTES = 256
"""The cost of a delivery here beside its frame."""

LAST_ID = 0xFFFF_FFFF


class _Table:
    """Deliveries by their MessageID, oldest first, each with the time until which it is waited for."""

    def __init__(self) -> None:
        self.entries: OrderedDict[int, tuple[float, Delivery]] = OrderedDict()
        """A dict would look for its oldest entry through all that were deleted before it: up to 60 µs a delivery."""
        self.bytes = 0

    def add(self, message_id: int, until: float, delivery: Delivery) -> None:
        self.entries[message_id] = until, delivery
        self.bytes += ENTRY_BYTES + len(delivery.frame)

    def take(self, message_id: int) -> Delivery | None:
        _, delivery = self.entries.pop(message_id, (0.0, None))
        if delivery is not None:
            self.bytes -= ENTRY_BYTES + len(delivery.frame)
        return delivery

    @property
    def is_over_full(self) -> bool:
        return len(self.entries) > MAX_UNCONFIRMED or self.bytes > MAX_UNCONFIRMED_BYTES

    @property
    def due(self) -> float | None:
        return next((until for until, _ in self.entries.values()), None)


class UnconfirmedData:
    """Events and requests apart: an event is waited for as long as `seconds`, a request as long as its requester waits.

    Ids count up from 1, past those that are open, and 0 stays free: the id of an enveloped request is its correlation
    too, and that is never 0.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = 0
        self._events = _Table()
        self._requests = _Table()
        self._given_up = RecentIds(MAX_UNCONFIRMED)

    @property
    def bytes(self) -> int:
        return self._events.bytes + self._requests.bytes

    def add(self, delivery: Delivery, now: float) -> int:
        """Returns a MessageID of its own for a delivery."""
        self._last = self._last % LAST_ID + 1
        while self._last in self._events.entries or self._last in self._requests.entries:
            self._last = self._last % LAST_ID + 1
        table = self._requests if delivery.kind is Kind.REQUEST else self._events
        table.add(self._last, now + self._seconds, delivery)
        return self._last

    def take(self, message_id: int) -> Delivery | None:
        """Takes out the delivery that the peer has acknowledged or refused."""
        return self._events.take(message_id) or self._requests.take(message_id)

    def was_given_up(self, message_id: int) -> bool:
        """True once for an id that we waited too long for."""
        return self._given_up.take(message_id)

    @property
    def due(self) -> float | None:
        """The time at which the oldest event has waited long enough."""
        return self._events.due

    @property
    def are_too_many(self) -> bool:
        return self._events.is_over_full

    def overdue(self, now: float) -> Iterator[Delivery]:
        """Gives up on events that waited too long, or that are too many."""
        while (due := self.due) is not None and (due <= now or self.are_too_many):
            yield self._give_up_oldest(self._events)

    def superfluous(self) -> Iterator[Delivery]:
        """Gives up on the oldest requests where they are too many."""
        while self._requests.is_over_full:
            yield self._give_up_oldest(self._requests)

    def _give_up_oldest(self, table: _Table) -> Delivery:
        message_id, (_, delivery) = next(iter(table.entries.items()))
        table.take(message_id)
        self._given_up.add(message_id)
        return delivery

    def take_all(self) -> list[Delivery]:
        """Takes out all deliveries, because the session is over."""
        unconfirmed = [delivery for table in (self._events, self._requests) for _, delivery in table.entries.values()]
        self._events, self._requests = _Table(), _Table()
        return unconfirmed

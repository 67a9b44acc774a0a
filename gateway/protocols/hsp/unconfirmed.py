"""The MessageIDs of what we sent, until the peer has acknowledged them."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.event import Kind
from gateway.protocols.actions import Delivery
from gateway.protocols.recent_ids import RecentIds

MAX_UNCONFIRMED = 65_536
"""Open ids of one kind, and ids given up on that are remembered. No peer gets that far behind in the seconds it has
for an ACK, and the edge bounds the bytes that wait; this bounds the ids of one that never acknowledges."""

LAST_ID = 0xFFFF_FFFF


class Unconfirmed:
    """Events and requests apart: an event is waited for as long as `seconds`, a request as long as its requester waits.

    Ids count up from 1, past those that are open, and 0 stays free: the id of an enveloped request is its correlation
    too, and that is never 0.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = 0
        self._events: dict[int, tuple[float, Delivery]] = {}
        self._requests: dict[int, Delivery] = {}
        self._given_up = RecentIds(MAX_UNCONFIRMED)

    def add(self, delivery: Delivery, now: float) -> int:
        """A MessageID of its own for a delivery."""
        self._last = self._last % LAST_ID + 1
        while self._last in self._events or self._last in self._requests:
            self._last = self._last % LAST_ID + 1
        if delivery.kind is Kind.REQUEST:
            self._requests[self._last] = delivery
        else:
            self._events[self._last] = (now + self._seconds, delivery)
        return self._last

    def take(self, message_id: int) -> Delivery | None:
        """The peer has acknowledged or refused it."""
        waiting = self._events.pop(message_id, None)
        return waiting[1] if waiting else self._requests.pop(message_id, None)

    def was_given_up(self, message_id: int) -> bool:
        """True once for an id that we waited too long for."""
        return self._given_up.take(message_id)

    @property
    def due(self) -> float | None:
        """When the oldest event has waited long enough."""
        return next((due for due, _ in self._events.values()), None)

    @property
    def are_too_many(self) -> bool:
        return len(self._events) > MAX_UNCONFIRMED

    def overdue(self, now: float) -> Iterator[Delivery]:
        """Gives up on events that waited too long, or that are too many."""
        while (due := self.due) is not None and (due <= now or self.are_too_many):
            message_id = next(iter(self._events))
            self._given_up.add(message_id)
            yield self._events.pop(message_id)[1]

    def superfluous(self) -> Iterator[Delivery]:
        """Gives up on the oldest requests where they are too many."""
        while len(self._requests) > MAX_UNCONFIRMED:
            message_id = next(iter(self._requests))
            self._given_up.add(message_id)
            yield self._requests.pop(message_id)

    def take_all(self) -> list[Delivery]:
        """The session is over."""
        left = [delivery for _, delivery in self._events.values()] + list(self._requests.values())
        self._events.clear()
        self._requests.clear()
        return left

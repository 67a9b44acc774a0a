"""Waits until every delivery of an event is confirmed, for hsp's `ack: delivered`, on both of its ends.

    entry with `confirm` ─► Awaited, counts its deliveries ─► DeliveryConfirmed, in the raw log ─────┐
            (each edge that has receivers)                                                           │ the router
    entry that requires  ─► HeldAnswers ◄─────────────── RecordConfirmed, one for each of those ◄────┘
     confirmations (the publisher's edge) └─► the answer, good or bad

Invariants
1. A good answer goes out only when all of those records have been told of, and none as failed.
2. Every answer that is held goes out: if it is not known in time whether it is good, as a bad one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gateway.protocols.actions import REACHED, Outcome

HELD_AT_MOST = 65_536
"""Then the oldest is let go as a bad one. As many as one session may have open; and of records that were told of before
their answer came, or after it had gone, so many tickets are remembered."""

HeldT = TypeVar("HeldT")


class DeliveryCountdown:
    """The deliveries of one record. `over` is told once, when the last has ended, whether any of them failed."""

    __slots__ = ("_failed", "_on_ended", "_remaining")

    def __init__(self, deliveries: int, on_ended: Callable[[bool], None]) -> None:
        self._remaining = deliveries
        self._failed = False
        self._on_ended = on_ended
        if deliveries == 0:
            on_ended(False)

    def ended(self, outcome: Outcome) -> None:
        self._failed = self._failed or outcome not in REACHED
        self._remaining -= 1
        if self._remaining == 0:
            self._on_ended(self._failed)


class Released(NamedTuple, Generic[HeldT]):
    held: HeldT
    failed: bool


@dataclass(slots=True)
class _Answer(Generic[HeldT]):
    held: HeldT
    needed: int
    until: float


class PendingAcks(Generic[HeldT]):
    """A record may be told of before its answer is here to be held, or after: both are kept."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _Answer[HeldT]] = OrderedDict()
        self._confirmations: OrderedDict[str, dict[tuple[str, int], bool]] = OrderedDict()
        """A dict would look for its oldest entry through all that were deleted before it: 30 µs a confirmation."""

    def __len__(self) -> int:
        """Returns how many answers wait."""
        return len(self._answers)

    def hold(self, ticket: str, answer: HeldT, needed: int, until: float) -> list[Released[HeldT]]:
        """Holds an answer. Returns those that need not, or cannot, wait any more: this one, or the oldest."""
        self._answers[ticket] = _Answer(answer, needed, until)
        if (released := self._release(ticket)) is not None:
            return [released]
        return [self._give_up(next(iter(self._answers)))] if len(self._answers) > HELD_AT_MOST else []

    def confirmed(self, ticket: str, edge: str, part: int, *, failed: bool) -> Released[HeldT] | None:
        """Returns the answer that waited for this entry (its edge, and its part there) if it was the last one.
        An entry that is told of again changes nothing.
        """
        self._confirmations.setdefault(ticket, {}).setdefault((edge, part), failed)
        if len(self._confirmations) > HELD_AT_MOST:
            del self._confirmations[next(iter(self._confirmations))]  # an answer held for it is bad in its time
        return self._release(ticket)

    def overdue(self, now: float) -> Iterator[Released[HeldT]]:
        """Yields the answers that have waited as long as anybody waits for them."""
        for ticket in [ticket for ticket, answer in self._answers.items() if answer.until <= now]:
            yield self._give_up(ticket)

    def _release(self, ticket: str) -> Released[HeldT] | None:
        answer, confirmations = self._answers.get(ticket), self._confirmations.get(ticket, {})
        if answer is None or len(confirmations) < answer.needed:
            return None
        del self._answers[ticket], self._confirmations[ticket]
        return Released(answer.held, any(confirmations.values()))

    def _give_up(self, ticket: str) -> Released[HeldT]:
        self._confirmations.pop(ticket, None)
        return Released(self._answers.pop(ticket).held, failed=True)

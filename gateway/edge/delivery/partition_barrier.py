"""Answers that wait until an interest stands in every raw partition."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

TICKETS_REMEMBERED = 65_536
"""Subscriptions on their way at once. One takes milliseconds; what is older than so many others will never be."""

HeldT = TypeVar("HeldT")


class PartitionBarrier(Generic[HeldT]):
    """A partition may say that it has applied a ticket before what is held under it comes, or after: both are kept."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._applied: OrderedDict[str, set[int]] = OrderedDict()
        """A dict would look for its oldest entry through all that were deleted before it: 30 µs a subscription."""
        self._held: OrderedDict[str, HeldT] = OrderedDict()

    def __len__(self) -> int:
        """Returns how many answers wait."""
        return len(self._held)

    def applied(self, ticket: str, partition: int) -> HeldT | None:
        """Notes that a partition has applied the ticket. Returns what was held under it once every partition has."""
        self._applied.setdefault(ticket, set()).add(partition)
        if len(self._applied) > TICKETS_REMEMBERED:
            del self._applied[next(iter(self._applied))]
        return self._held.pop(ticket, None) if self._stands(ticket) else None

    def hold(self, ticket: str, item: HeldT) -> list[HeldT]:
        """Holds an answer. Returns those that need not, or cannot, wait any more: this one, or the oldest."""
        if self._stands(ticket):
            return [item]
        self._held[ticket] = item
        return [self._held.pop(next(iter(self._held)))] if len(self._held) > TICKETS_REMEMBERED else []

    def _stands(self, ticket: str) -> bool:
        return len(self._applied.get(ticket, ())) >= self._partitions

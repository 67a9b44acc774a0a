"""Ids that are over, so that what comes late is known from what was never asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

LATE_ANSWERS_REMEMBERED = 1024
"""Ids of requests that timed out or were cancelled, kept so that a late answer is no protocol error. More would let a
server that never answers in time hold memory; the oldest go first."""


@dataclass(slots=True)
class RecentIds:
    """Ids that are over, remembered for a while so that a late answer to one of them is no protocol error."""

    limit: int = LATE_ANSWERS_REMEMBERED
    _ids: OrderedDict[Hashable, None] = field(default_factory=OrderedDict)
    """A dict would look for its oldest entry through all that were deleted before it."""

    def add(self, wire: Hashable) -> None:
        self._ids.pop(wire, None)
        self._ids[wire] = None
        if len(self._ids) > self.limit:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, wire: Hashable) -> bool:
        return wire in self._ids

    def take(self, wire: Hashable) -> bool:
        """True once for an id that was remembered."""
        return self._ids.pop(wire, self) is None

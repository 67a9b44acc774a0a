"""Bounds what an edge holds in memory for all its sessions together, and ends the largest when that is too much.

A session has bounds of its own (`limits.queue_bytes`, `limits.frame_bytes`, 16 MiB of unconfirmed deliveries), but ten
thousand sessions within their bounds fill any machine. So the edge counts the bytes that pass through all of them, at
the cost of one addition a read or a write, and looks at what the sessions really hold once so much has passed that the
budget may be exceeded. Whoever holds most is ended first: an honest peer holds little, for it reads what it is sent.

Invariants
1. The sessions hold at most the budget and an eighth of it when a turn of the loop is over, but for the turns that it
   takes to end those that hold too much: at most `CUT_AT_ONCE` go in one turn, so that nobody else waits for all.
2. A look at all sessions comes at most once for each eighth of the budget that has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nlargest
from itertools import chain
from typing import Protocol

LOOK_SHARE = 8
"""A look costs half a microsecond a session: 5 ms for 10,000 of them, after 16 MiB of traffic at the least."""
CUT_AT_ONCE = 32
"""Sessions that end in one turn of the loop. Each takes a fifth of a millisecond."""
FREED_SHARE = 4
"""So much of the budget is free after sessions had to go; else the next byte would bring the next look."""
RETURN_BYTES = 16 << 20
"""Memory goes back to the system once sessions have let go of so much: 3 ms for a hundred megabytes."""


class Holder(Protocol):
    @property
    def held_bytes(self) -> int:
        """The bytes that the edge holds in memory for this session."""

    def cut(self) -> None:
        """Ends the session without a goodbye, and frees what is held for it."""


class MemoryBudget:
    """Bounds the memory of all sessions, and of what is included beside.

    `later` calls a function at the end of a turn; `return_freed` gives freed memory back to the system.
    `seen_bytes` is what the last look has seen, and may be read from any thread.
    """

    def __init__(
        self,
        most_bytes: int,
        holders: Callable[[], Iterable[Holder]],
        later: Callable[[Callable[[], None]], object],
        return_freed: Callable[[], object],
    ) -> None:
        self._most_bytes = most_bytes
        self._sources = [holders]
        self._later = later
        self._return_freed = return_freed
        self._passed_bytes = 0
        self._look_after_bytes = most_bytes // LOOK_SHARE
        self._is_look_due = False
        self._is_cutting = False
        self._freed_bytes = 0
        self.seen_bytes = 0

    def include(self, holders: Callable[[], Iterable[Holder]]) -> None:
        """Bounds the memory of these too, together with all others."""
        self._sources.append(holders)

    def _holders(self) -> Iterable[Holder]:
        return chain.from_iterable(holders() for holders in self._sources)

    def reconfigure(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._look_after_bytes = 0

    @property
    def held_bytes(self) -> int:
        return sum(holder.held_bytes for holder in self._holders())

    def count(self, passed_bytes: int) -> None:
        """Counts bytes that came from a peer or are on their way to one."""
        self._passed_bytes += passed_bytes
        if self._passed_bytes > self._look_after_bytes and not self._is_look_due:
            self._is_look_due = True
            self._later(self.look)

    def look(self) -> None:
        """Ends sessions if they hold too much. Called once a second too, for the metric."""
        self._is_look_due = False
        self._passed_bytes = 0
        held_bytes = self.held_bytes
        most_seen_bytes = max(held_bytes, self.seen_bytes)
        enough_bytes = self._most_bytes - self._most_bytes // FREED_SHARE
        if held_bytes > (enough_bytes if self._is_cutting else self._most_bytes):
            held_bytes = self._cut_largest(held_bytes, enough_bytes)
            self._is_cutting = self._is_look_due = held_bytes > enough_bytes
            if self._is_cutting:
                self._later(self.look)
        else:
            self._is_cutting = False
        self._count_freed(most_seen_bytes - held_bytes)
        self.seen_bytes = held_bytes
        self._look_after_bytes = max(self._most_bytes - held_bytes, self._most_bytes // LOOK_SHARE)

    def _count_freed(self, freed_bytes: int) -> None:
        self._freed_bytes += freed_bytes
        if self._freed_bytes >= RETURN_BYTES:
            self._freed_bytes = 0
            self._return_freed()

    def _cut_largest(self, held_bytes: int, enough_bytes: int) -> int:
        sizes = [(holder.held_bytes, holder) for holder in self._holders()]
        for size, holder in nlargest(CUT_AT_ONCE, sizes, key=lambda pair: pair[0]):
            if held_bytes <= enough_bytes:
                break
            holder.cut()
            held_bytes -= size
        return held_bytes

"""Decides when a failed query may be started again in place: on the same JVM, from the last commit.

A Python worker that was killed, or a broker that was away for too long, ends a query and nothing else: its successor
begins within a second. What fails again and again is not cured by that, and the router ends with the reason.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MOST, WITHIN_SECONDS = 5, 60.0
"""A killed worker is one failure; workers that are killed one after another (by a kernel short of memory) are many."""
PAUSE_SECONDS = 1.0
"""Before every start again but the first, which is at once."""


@dataclass(slots=True)
class Restarts:
    """Counts the restarts of one lane."""

    _failures: deque[float] = field(default_factory=deque)

    def failed(self, now: float) -> float | None:
        """Returns the seconds to wait before the next start; None if there have been too many."""
        while self._failures and now - self._failures[0] > WITHIN_SECONDS:
            self._failures.popleft()
        self._failures.append(now)
        if len(self._failures) > MOST:
            return None
        return PAUSE_SECONDS if len(self._failures) > 1 else 0.0

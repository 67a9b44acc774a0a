"""Estimates the age of the oldest record that is not done, from ends and positions only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lag:
    """Tells how old the oldest unread record is, from end offsets that were looked at from time to time."""

    _ends: deque[tuple[float, int]] = field(default_factory=deque)

    def observe(self, now: float, end: int, processed: int) -> float:
        """Returns the lag in seconds. If several partitions are looked at, `end` and `processed` are sums over them."""
        if not self._ends or end > self._ends[-1][1]:
            self._ends.append((now, end))
        while self._ends and self._ends[0][1] <= processed:
            self._ends.popleft()
        return now - self._ends[0][0] if self._ends else 0.0

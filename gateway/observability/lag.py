"""Estimates the age of the oldest record that is not done, from ends and positions only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Lag:
    """Tells how old the oldest unread record is, from end offsets that were looked at from time to time."""

    _end_offsets: deque[tuple[float, int]] = field(default_factory=deque)

    def observe(self, now: float, end: int, processed: int) -> float:
        """Returns the lag in seconds. If several partitions are looked at, `end` and `processed` are sums over them."""
        if not self._end_offsets or end > self._end_offsets[-1][1]:
            self._end_offsets.append((now, end))
        while self._end_offsets and self._end_offsets[0][1] <= processed:
            self._end_offsets.popleft()
        return now - self._end_offsets[0][0] if self._end_offsets else 0.0

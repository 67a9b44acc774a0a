"""Schedules each frame: at equal distances, fixed before the run begins, whatever happens in it."""

from __future__ import annotations

from dataclasses import dataclass

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """Says when each frame is due. `start` is in nanoseconds of the monotonic clock, which all processes share.

    >>> schedule = Schedule(start=0, rate=2.0, total=3)
    >>> [schedule.due(index) for index in range(3)], schedule.due_by(500_000_000)
    ([0, 500000000, 1000000000], 2)
    """

    start: int
    rate: float
    total: int

    def due(self, index: int) -> int:
        """No frame is due before this time."""
        return self.start + round(index * SECOND_NS / self.rate)

    def due_by(self, now: int) -> int:
        """Returns how many frames are due by now: those of the indices below."""
        if now < self.start:
            return 0
        count = min(int((now - self.start) * self.rate / SECOND_NS) + 1, self.total)
        # The division may fall on the other side of a frame's own rounding: never is a frame called due too early.
        return count - 1 if count and self.due(count - 1) > now else count

"""Keeps a generator to its schedule: it sleeps until something is due, and then sends everything that is."""

from __future__ import annotations

import time

from gateway.bench.schedule import SECOND_NS, Schedule

PACE_SECONDS = 0.0005
"""The shortest sleep. Above 2,000 frames/s frames go out by twos and more, each at most this late: waking for each one
would cost the two cores that the mesh shares with us more than the sending."""
BURST_FRAMES = 256
"""A generator behind its schedule sends so many frames before it looks at the clock again."""


def due_now(schedule: Schedule, sent: int, now: int) -> int:
    """Frames below this index are to be sent now."""
    return min(schedule.due_by(now), sent + BURST_FRAMES)


def pause(schedule: Schedule, sent: int, now: int) -> float:
    """Returns the seconds to sleep until the next frame is due.

    >>> pause(Schedule(0, 1.0, 10), 1, 400_000_000), pause(Schedule(0, 1e6, 10), 1, 0)
    (0.6, 0.0005)
    """
    return max((schedule.due(sent) - now) / SECOND_NS, PACE_SECONDS)


PROBE_SECONDS = 0.5
"""Between two probes of a session."""


def now_ns() -> int:
    """The clock of schedules and arrivals."""
    return time.monotonic_ns()

"""What a receiver would have noted, written by hand: (index, milliseconds after the schedule's start)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gateway.bench.accounting import MS_NS
from gateway.bench.arrivals import Noted
from gateway.bench.schedule import Schedule

START = 5_000_000_000
EVERY_MS = 100


def schedule(total: int) -> Schedule:
    """A frame each 100 ms."""
    return Schedule(START, 1_000 / EVERY_MS, total)


def noted(*arrivals: tuple[int, float]) -> Noted:
    indices = np.array([index for index, _ in arrivals], dtype=np.int64)
    times = np.array([START + round(ms * MS_NS) for _, ms in arrivals], dtype=np.int64)
    return Noted(indices.tobytes(), times.tobytes())


def on_time(indices: Iterable[int], late_ms: float = 0.0) -> Noted:
    return noted(*((index, index * EVERY_MS + late_ms) for index in indices))

"""Decides when a receiver has waited long enough: everything has come, or nothing more does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gateway.bench.arrivals import Arrivals
from gateway.bench.messages import Expect
from gateway.bench.schedule import SECOND_NS

QUIET_SECONDS = 3.0
"""A mesh that has nothing to say for so long has said all. Longer than a collection of garbage or a rebalance."""
LOOK_SECONDS = 0.02


class Quiescence:
    def __init__(
        self, arrivals: Sequence[Arrivals], expect: Expect, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._arrivals = arrivals
        self._frames = expect.frames
        self._clock = clock
        self._began = clock()
        self._deadline = self._began + int(expect.seconds * SECOND_NS)
        self._look_at = 0

    def is_over(self) -> bool:
        now = self._clock()
        if now < self._look_at:
            return False
        self._look_at = now + int(LOOK_SECONDS * SECOND_NS)
        if now >= self._deadline or all(len(arrivals) >= self._frames for arrivals in self._arrivals):
            return True
        last = max((arrivals.last for arrivals in self._arrivals), default=0)
        return now - max(last, self._began) >= QUIET_SECONDS * SECOND_NS

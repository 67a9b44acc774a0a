"""Which trigger a lane runs under in `auto`: real time while it keeps up, micro-batch while it does not.

Real time answers in milliseconds and carries about a third of what micro-batch carries. A lane that falls behind goes
over to micro-batch, works off everything that has piled up in one batch (which also keeps the dedup state exact: see
`dedup`), and comes back once it has kept up for a while at a rate that real time can carry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    REALTIME = "realtime"
    MICROBATCH = "microbatch"


BEHIND_SECONDS = 5.0
"""A lane in real time whose oldest unread record is older goes over. A hiccup of the JVM is shorter."""
STUCK_SECONDS = 30.0
"""A lane that does nothing at all is stuck and not slow (a broker that is away, a JVM that was frozen): the other
trigger would be stuck as well. After so long it goes over all the same, for that begins the query anew."""
PATIENCE_SECONDS = 15.0
"""One that is behind and catching up is left alone if it will be done by then: a change would throw away what it has
done since its last commit."""
HUNG_SECONDS = 60.0
"""Twice as long as real time may be stuck: whatever the trigger, the query then begins anew, with other workers."""
CALM_SECONDS = 10.0
"""So long a lane that was too slow must have kept up before it goes back: each change costs a second or two."""
WORKED_OFF_SECONDS = 2.0
"""And so long one that was not: it only had a backlog from before its start."""
CAUGHT_UP_SECONDS = 2.0
"""What lag counts as keeping up under micro-batch, whose batches take their time."""
SAFE_SHARE = 0.7
"""It only goes back at less than this share of the rate at which it fell behind."""
FORGET_SECONDS = 600.0
"""Then the rate at which it fell behind is forgotten: what made it slow may be over."""


@dataclass(slots=True)
class Standstill:
    """Whether nothing at all has been done for long although there is something to do: a worker that hangs."""

    _done: int = -1
    _since: float = 0.0

    def observe(self, now: float, end: int, done: int) -> bool:
        if done != self._done or end <= done:
            self._done, self._since = done, now
        return now - self._since > HUNG_SECONDS


@dataclass(slots=True)
class Pace:
    """`choose` is asked about once a second."""

    mode: Mode
    _calm_since: float | None = None
    _fell_behind: tuple[float, float] | None = None

    def choose(
        self, now: float, lag_seconds: float, frames_per_second: float, left_seconds: float = float("inf")
    ) -> Mode:
        """`left_seconds`: until all is worked off, as it goes now."""
        if self.mode is Mode.REALTIME:
            self._choose_in_real_time(now, lag_seconds, frames_per_second, left_seconds)
        elif lag_seconds > CAUGHT_UP_SECONDS or not self._is_safe(now, frames_per_second):
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= (CALM_SECONDS if self._fell_behind else WORKED_OFF_SECONDS):
            self._go(Mode.REALTIME)
        return self.mode

    def _choose_in_real_time(
        self, now: float, lag_seconds: float, frames_per_second: float, left_seconds: float
    ) -> None:
        if lag_seconds > BEHIND_SECONDS and frames_per_second > 0 and left_seconds > PATIENCE_SECONDS:
            self._fell_behind = now, frames_per_second
            self._go(Mode.MICROBATCH)
        elif lag_seconds > STUCK_SECONDS and frames_per_second <= 0:
            self._go(Mode.MICROBATCH)

    def _is_safe(self, now: float, frames_per_second: float) -> bool:
        if self._fell_behind is None or now - self._fell_behind[0] > FORGET_SECONDS:
            return True
        return frames_per_second < SAFE_SHARE * self._fell_behind[1]

    def _go(self, mode: Mode) -> None:
        self.mode = mode
        self._calm_since = None

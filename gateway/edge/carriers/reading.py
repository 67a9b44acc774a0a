"""When a connection is read, and how much at once: what keeps one peer from costing others."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

BURST_SECONDS = 1.0
"""What a session may send at once after a pause: as much as it may in a second."""

READ_BYTES = 65_536
"""A busy connection's read. More would not be faster: the kernel's own copies dominate from here."""
FIRST_READ_BYTES = 8_192
LEAST_READ_BYTES = 512
SLICE_SECONDS = 0.005
"""A read may keep the loop busy for so long. Frames of one byte cost a thousand times more per byte than large ones;
a peer that sends nothing else gets smaller reads, and all others their turn."""


class Hold(StrEnum):
    """Why a connection is not read at present."""

    LOG_FULL = "the raw log takes no more"
    RATE = "too many frames a second"
    UNREAD = "the peer does not read what it is sent"


class Gate:
    """Reading goes on while nothing holds it."""

    __slots__ = ("_holds", "_pause", "_resume")

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holds: set[Hold] = set()

    @property
    def is_ours(self) -> bool:
        """We are the ones who do not read: the peer cannot be blamed for what we do not hear."""
        return bool(self._holds - {Hold.UNREAD})

    def hold(self, why: Hold) -> None:
        if not self._holds:
            self._pause()
        self._holds.add(why)

    def release(self, why: Hold) -> None:
        if why in self._holds:
            self._holds.remove(why)
            if not self._holds:
                self._resume()


class TokenBucket:
    """`rate` frames a second, and a second's worth at once."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._burst = max(rate * BURST_SECONDS, 1.0)
        self._tokens = self._burst
        self._at = now

    def take(self, frames: int, now: float) -> float:
        """They have come already, so they are taken in any case; seconds until the debt is paid."""
        self._fill(now)
        self._tokens -= frames
        return max(-self._tokens / self._rate, 0.0)

    def has_one(self, now: float) -> bool:
        """Takes one frame if it may come in at all."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst)
        self._at = now


class ReadSize:
    """How many bytes the next read may bring: what the loop handles in a slice, by what the last read cost."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = FIRST_READ_BYTES

    def took(self, size: int, seconds: float) -> None:
        if seconds > SLICE_SECONDS:
            self.bytes = max(int(size * SLICE_SECONDS / seconds), LEAST_READ_BYTES)
        elif size == self.bytes < READ_BYTES:
            self.bytes = min(2 * self.bytes, READ_BYTES)

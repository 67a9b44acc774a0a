"""Decides when a connection is read, and how much at once, so that one peer does not cost the others."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from gateway.config import Limits

BURST_SECONDS = 1.0
"""A session may send at once, after a pause, as much as it may in so many seconds."""

ARRIVALS_BURST_SECONDS = 10.0
"""The burst of connections: all peers of an edge that was away come back at once, 5,000 of them without waiting."""

STREAM_FRAMES_PER_SECOND = 20_000.0
"""The rate of one stream if the configuration says nothing."""

NOTABLE_SHARE = 0.01
"""The share of a second's cost after which a stream is looked at. A look after each read would cost as much as to read
a small frame."""

READ_BYTES = 65_536
"""A busy connection's read. More would not be faster: the kernel's own copies dominate from here."""
FIRST_READ_BYTES = 8_192
LEAST_READ_BYTES = 512
SLICE_SECONDS = 0.002
"""A read may keep the loop busy for so long. Frames of one byte cost a thousand times more per byte than large ones;
a peer that sends nothing else gets smaller reads, and all others their turn."""


class PauseReason(StrEnum):
    """The reasons for which a connection is not read at present."""

    LOG_FULL = "the raw log takes no more"
    RATE = "it sends too much"
    UNREAD = "the peer does not read what it is sent"
    TURN = "others that send much have their turn"


class ReadGate:
    """Pauses reading while anything holds it."""

    __slots__ = ("_holds", "_pause", "_resume")

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holds: set[PauseReason] = set()

    @property
    def is_ours(self) -> bool:
        """We are the ones who do not read: the peer cannot be blamed for what we do not hear."""
        return bool(self._holds - {PauseReason.UNREAD})

    def hold(self, why: PauseReason) -> None:
        if not self._holds:
            self._pause()
        self._holds.add(why)

    def release(self, why: PauseReason) -> None:
        if why in self._holds:
            self._holds.remove(why)
            if not self._holds:
                self._resume()


class TokenBucket:
    """Allows `rate` frames a second, and `burst_seconds` of them at once."""

    __slots__ = ("_at", "_burst_seconds", "_tokens", "rate")

    def __init__(self, rate: float, now: float, burst_seconds: float = BURST_SECONDS) -> None:
        self.rate = rate
        self._burst_seconds = burst_seconds
        self._tokens = self._burst
        self._at = now

    @property
    def _burst(self) -> float:
        return max(self.rate * self._burst_seconds, 1.0)

    def take(self, frames: int, now: float) -> float:
        """Takes frames that have come already. Returns the seconds until the debt is paid."""
        self._fill(now)
        self._tokens -= frames
        return max(-self._tokens / self.rate, 0.0)

    def take_within(self, most_seconds: float, now: float) -> float | None:
        """Takes one frame. Returns the seconds until its turn; None, and takes nothing, if that is too long."""
        seconds = self.take(1, now)
        if seconds <= most_seconds:
            return seconds
        self._tokens += 1.0
        return None

    def has_one(self, now: float) -> bool:
        """Takes one frame if it may come in at all."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def has_any(self, amount: int, now: float) -> bool:
        """Takes the whole amount if any of it may come in."""
        self._fill(now)
        if self._tokens <= 0.0:
            return False
        self._tokens -= amount
        return True

    def _fill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._at) * self.rate, self._burst)
        self._at = now


class Throttle:
    """Tells for how long a stream must not be read, by what it has cost lately: frames, bytes, time of the edge's
    thread, and control frames. Each has a rate and a burst; what the peer owes of each is kept in seconds.

    It is asked once a read at most, and not before a hundredth of what a second allows has come together (`notable`).
    """

    __slots__ = (
        "_at", "_bytes", "_controls", "_cpu", "_frames", "_of_bytes", "_of_controls", "_of_cpu", "_of_frames",
        "_saved_controls", "_saved_frames", "notable_bytes", "notable_frames", "notable_seconds",
    )  # fmt: skip

    def __init__(self, limits: Limits, now: float) -> None:
        self._at = now
        self._of_frames = 1 / (limits.frames_per_second_per_session or STREAM_FRAMES_PER_SECOND)
        self._of_bytes = 1 / limits.bytes_per_second_per_session
        self._of_cpu = 1 / limits.cpu_share_per_session
        self._of_controls = 1 / limits.control_frames_per_second_per_session
        self.notable_frames = NOTABLE_SHARE / self._of_frames
        self.notable_bytes = NOTABLE_SHARE / self._of_bytes
        self.notable_seconds = NOTABLE_SHARE / self._of_cpu
        self._saved_frames = self._frames = -max(BURST_SECONDS, self._of_frames)
        self._bytes = self._cpu = -BURST_SECONDS
        self._saved_controls = self._controls = -limits.subscriptions_per_session * self._of_controls

    def take(self, frames: int, size: int, cpu_seconds: float, controls: int, now: float) -> float:
        """Takes what has come already. Returns the seconds until all debts are paid."""
        elapsed = now - self._at
        self._at = now
        self._frames = max(self._frames - elapsed, self._saved_frames) + frames * self._of_frames
        self._bytes = max(self._bytes - elapsed, -BURST_SECONDS) + size * self._of_bytes
        self._cpu = max(self._cpu - elapsed, -BURST_SECONDS) + cpu_seconds * self._of_cpu
        self._controls = max(self._controls - elapsed, self._saved_controls) + controls * self._of_controls
        return max(self._frames, self._bytes, self._cpu, self._controls, 0.0)


class Spending:
    """Adds up what a stream costs, and asks its throttle once that is worth a look. `clock`: seconds, monotonic."""

    __slots__ = ("_clock", "bytes", "frames", "seconds", "throttle")

    throttle: Throttle

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.frames = self.bytes = 0
        self.seconds = 0.0

    def charge(self, seconds: float, controls: int) -> float:
        """Adds the edge's time and the control frames of a read. Returns for how long there must be no other."""
        self.seconds += seconds
        throttle = self.throttle
        if not (
            self.frames >= throttle.notable_frames
            or self.bytes >= throttle.notable_bytes
            or self.seconds >= throttle.notable_seconds
            or controls
        ):
            return 0.0
        frames, size, spent_seconds = self.frames, self.bytes, self.seconds
        self.frames = self.bytes = 0
        self.seconds = 0.0
        return throttle.take(frames, size, spent_seconds, controls, self._clock())


class ReadSize:
    """Chooses how many bytes the next read may bring: what the loop handles in a slice, by what the last read cost."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = FIRST_READ_BYTES

    def took(self, size: int, seconds: float) -> None:
        if seconds > SLICE_SECONDS:
            self.bytes = max(int(size * SLICE_SECONDS / seconds), LEAST_READ_BYTES)
        elif size == self.bytes < READ_BYTES:
            self.bytes = min(2 * self.bytes, READ_BYTES)

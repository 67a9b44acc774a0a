"""Reads one stream within its rates, and by turns with others that have as much to be read.

What a read costs is the time of the edge's thread that it took, not the time that passed meanwhile: a machine that is
busy with other things, or an attacker that makes it so, would else be charged to whoever happens to be read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gateway.config import Limits
from gateway.edge.carriers.read_control import (
    FIRST_READ_BYTES,
    LEAST_READ_BYTES,
    PauseReason,
    ReadGate,
    Spending,
    Throttle,
)
from gateway.edge.carriers.read_queue import ReadQueue
from gateway.protocols.session import Session

COSTLY_SECONDS = 0.000_5
"""A stream whose reads take longer is not read any more in a crowded turn of the loop. The reads of a peer that
sends a few hundred small frames a second take a tenth of it."""
MEMORY_OF_READS = 8
"""The usual cost of a read is a mean of about so many."""


class StreamReading:
    """The reading of one stream.

    Args:
        queue: shared by all streams of the edge.
        has_more: tells whether something that was read waits for `go_on`.
        go_on: takes a slice of it.
        on_pause: hears for how many seconds the stream is not read because of its rates.
    """

    __slots__ = (
        "_expected_seconds",
        "_gate",
        "_go_on",
        "_had_turn",
        "_has_more",
        "_is_waiting",
        "_loop",
        "_on_pause",
        "_queue",
        "_session",
        "spending",
        "usual_seconds",
    )

    def __init__(
        self,
        session: Session,
        gate: ReadGate,
        queue: ReadQueue,
        has_more: Callable[[], bool],
        go_on: Callable[[], None],
        on_pause: Callable[[float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._gate = gate
        self._queue = queue
        self._has_more = has_more
        self._go_on = go_on
        self._on_pause = on_pause
        self._is_waiting = self._had_turn = False
        self._expected_seconds = 0.0
        self.usual_seconds = COSTLY_SECONDS  # until something is known of it
        self.spending = Spending(self._loop.time)

    def reconfigure(self, limits: Limits) -> None:
        self.spending.throttle = Throttle(limits, self._loop.time())

    def read_bytes(self, most: int) -> int:
        """Returns how many bytes of `most` may be read now."""
        if not self._queue.is_crowded:
            return most
        return LEAST_READ_BYTES if self._is_costly else min(most, FIRST_READ_BYTES)

    def receive(self, data: bytes | memoryview, now: float) -> None:
        """Hands what has come to the session, which leaves it for later if this turn of the loop is crowded."""
        if data and self._is_costly and self._queue.is_crowded and not self._session.settings.message_transport:
            self._session.hold_back(data)
        else:
            self._session.receive(data, now)

    def account(self, seconds: float, *, is_filled: bool) -> None:
        """Charges the stream for what a read has brought and for the time that it took. The rest is read later.

        Args:
            is_filled: the read brought as much as it could, so there is more.
        """
        session = self._session
        self.usual_seconds += (seconds - self.usual_seconds) / MEMORY_OF_READS
        self._queue.charge(seconds, self._expected_seconds)
        self._expected_seconds = 0.0
        pause_seconds = self.spending.charge(seconds, session.control_frames)
        session.control_frames = 0
        if session.closed:
            return
        if pause_seconds:
            self._on_pause(pause_seconds)
            self._gate.hold(PauseReason.RATE)
            self._loop.call_later(pause_seconds, self._rate_is_kept)
        elif self._has_more() or (is_filled and self._queue.is_contended):
            self._wait()
        else:
            self._had_turn = False

    def take_turn(self, expected_seconds: float) -> None:
        """Takes a slice of what was read; else lets the carrier read again."""
        self._is_waiting = False
        self._had_turn = True
        self._expected_seconds = expected_seconds
        if self._has_more():
            began = time.thread_time()
            self._go_on()
            self.account(time.thread_time() - began, is_filled=False)
        if not self._is_waiting:
            self._had_turn = True  # whether that was all, the next read tells
            self._gate.release(PauseReason.TURN)

    @property
    def _is_costly(self) -> bool:
        return self.usual_seconds >= COSTLY_SECONDS

    def _rate_is_kept(self) -> None:
        if self._has_more():
            self._wait()
        self._gate.release(PauseReason.RATE)

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._gate.hold(PauseReason.TURN)
            self._queue.wait(self, again=self._had_turn)

"""Shares the edge's one thread among streams that have more to be read than can be taken at once.

    a read ──► charge(seconds)
      └─ more of it waits, and so do others ──► wait(stream): not read ──► take_turn()

Streams that have had a turn, and had more all the same, wait in a row of their own. The two rows are served by turns,
and each of them first come first served.

Invariants
1. A stream that has been read to its end is read as soon as something comes. So an honest peer waits for one slice of
   another peer's work, whatever the number of those who send without end.
2. Streams that wait get `TURN_SECONDS` in one turn of the loop at most, and `QUEUE_SHARE` of the thread over time. What
   other streams cost comes off it.
3. While Kafka takes enough, the first of the queue has its turn within `MOST_PAUSE_SECONDS`.
4. A stream that begins to wait does not wait for all those that send without end. Behind a thousand of them it would
   wait for seconds, have more by then than one turn takes, and be one of them from then on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

TURN_SECONDS = 0.002
"""The time for reads in one turn of the loop, after which it is crowded. An honest frame waits for some three turns: to
be read, to be sent to Kafka, and to be acknowledged."""
QUEUE_SHARE = 0.7
"""The share of the thread for streams that wait. The rest is for deliveries, acknowledgements, and quiet peers."""
MOST_PAUSE_SECONDS = 0.05
"""The longest pause of the queue, however long the last turn was and however much other streams cost."""
FULL_LOG_SECONDS = 0.005
"""While Kafka has too much to take, the queue looks again after so long: about the time of a record to Kafka."""
LEAST_TURN_SECONDS = 0.000_05
"""The least that a turn of a stream is taken to cost, because the loop's own work for a read costs that."""


class WaitingStream(Protocol):
    @property
    def usual_seconds(self) -> float:
        """The thread's time that a read of this stream usually takes."""

    def take_turn(self, expected_seconds: float) -> None:
        """Reads a slice. `expected_seconds` have been charged for it already."""


class ReadQueue:
    """The queue of one loop. `has_room` tells whether Kafka keeps up with what is read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, has_room: Callable[[], bool]) -> None:
        self._loop = loop
        self._has_room = has_room
        self._newcomers: deque[WaitingStream] = deque()
        self._others: deque[WaitingStream] = deque()
        self._is_turn_of_others = False
        self._credit = TURN_SECONDS
        self._credited_at = loop.time()
        self._turn_seconds = 0.0
        self._is_turn_open = self._is_due = False

    def __len__(self) -> int:
        return len(self._newcomers) + len(self._others)

    @property
    def is_crowded(self) -> bool:
        """True once the reads of this turn of the loop have taken their time together."""
        return self._turn_seconds > TURN_SECONDS

    @property
    def is_contended(self) -> bool:
        """True if a stream with more to be read has to wait: for others, or for Kafka."""
        return len(self) > 0 or self.is_crowded or not self._has_room()

    def charge(self, seconds: float, expected_seconds: float = 0.0) -> None:
        """Notes what a read has taken. `expected_seconds` were charged when the stream had its turn."""
        if not self._is_turn_open:
            self._is_turn_open = True
            self._loop.call_soon(self._end_turn)
        self._turn_seconds += seconds
        self._credit = max(self._credit + expected_seconds - seconds, -MOST_PAUSE_SECONDS * QUEUE_SHARE)

    def wait(self, stream: WaitingStream, *, again: bool) -> None:
        """Lets a stream wait, which is not read meanwhile. `again`: it has had a turn, and was not read to its end."""
        (self._others if again else self._newcomers).append(stream)
        if not self._is_due:
            self._schedule()

    def _end_turn(self) -> None:
        """Ends the turn. It is called at the beginning of the loop's next one, before anything is read in it."""
        self._is_turn_open = False
        self._turn_seconds = 0.0

    def _schedule(self) -> None:
        self._is_due = True
        if not self._has_room():
            self._loop.call_later(FULL_LOG_SECONDS, self._serve)
        elif self._credit > 0:
            self._loop.call_soon(self._serve)
        else:
            self._loop.call_later(-self._credit / QUEUE_SHARE, self._serve)

    def _serve(self) -> None:
        self._is_due = False
        now = self._loop.time()
        self._credit = min(self._credit + (now - self._credited_at) * QUEUE_SHARE, TURN_SECONDS)
        self._credited_at = now
        for _ in range(len(self)):
            if self._credit <= 0 or not self._has_room():
                break
            stream = self._next()
            seconds = max(stream.usual_seconds, LEAST_TURN_SECONDS)
            self._credit -= seconds
            stream.take_turn(seconds)
        if len(self) and not self._is_due:
            self._schedule()

    def _next(self) -> WaitingStream:
        self._is_turn_of_others = not self._is_turn_of_others
        rows = (self._others, self._newcomers) if self._is_turn_of_others else (self._newcomers, self._others)
        return next(row for row in rows if row).popleft()

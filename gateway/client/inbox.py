"""Events that have come and that nobody has taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from gateway.core.event import Event

FULL_EVENTS = 65_536
"""Then the carrier reads no more until half are taken: a program that falls behind holds its peer back, which is the
mesh's to decide about, and does not grow."""


class Inbox:
    """Holds what came until it is read. `pause` is called when it fills up, `resume` when there is room again."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._events: deque[Event] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pause, self._resume = pause, resume
        self._paused = False
        self._ended = False
        self._error: Exception | None = None

    def put(self, event: Event) -> None:
        self._events.append(event)
        if not self._paused and len(self._events) >= FULL_EVENTS:
            self._paused = True
            self._pause()
        self._wake()

    def end(self, error: Exception | None) -> None:
        """No more will come. What is here can still be taken; then iteration ends, or raises."""
        self._ended, self._error = True, error
        while self._waiting:
            self._wake()

    def _wake(self) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    async def _woken(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            self._wake()  # whoever else waits may have what this one was woken for
            raise

    def __aiter__(self) -> Inbox:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._ended:
                raise self._error or StopAsyncIteration
            await self._woken()
        event = self._events.popleft()
        if self._paused and len(self._events) <= FULL_EVENTS // 2:
            self._paused = False
            self._resume()
        return event

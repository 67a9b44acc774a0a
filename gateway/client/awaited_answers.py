"""The answers that a client waits for. Each has a future, and a time that progress prolongs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.client.translation import Answer
from gateway.core.event import Event

OnProgress = Callable[[Event], None]


class _Open:
    __slots__ = ("_on_progress", "_seconds", "_timer", "answer")

    def __init__(self, seconds: float, on_progress: OnProgress | None) -> None:
        self._seconds = seconds
        self._on_progress = on_progress
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._timer = self._started()

    def _started(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self.fail, TimeoutError())

    def add_progress(self, progress: Event) -> None:
        self.stop()
        self._timer = self._started()
        if self._on_progress is not None:
            self._on_progress(progress)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def stop(self) -> None:
        self._timer.cancel()


class AwaitedAnswers:
    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    async def answer(self, request: str, seconds: float, on_progress: OnProgress | None) -> Answer:
        """Raises TimeoutError, or what `fail` was given."""
        waiting = self._open[request] = _Open(seconds, on_progress)
        try:
            return await waiting.answer
        finally:
            waiting.stop()
            del self._open[request]

    def add_progress(self, request: str, progress: Event) -> None:
        """Takes an answer. One that belongs to no open request comes too late, and is dropped."""
        if (waiting := self._open.get(request)) is not None:
            waiting.add_progress(progress)

    def answered(self, request: str, answer: Answer) -> None:
        waiting = self._open.get(request)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Fails all open requests."""
        for waiting in self._open.values():
            waiting.fail(error)

"""The one timer of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SessionTimer:
    """Keeps the earliest time that was ever asked for: one that comes too early only looks, and asks for the next. So
    what moves a deadline with every frame costs no timer of the loop."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._look = look
        self._handle: asyncio.TimerHandle | None = None

    def look_by(self, due: float) -> None:
        if self._handle is not None:
            if self._handle.when() <= due:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(due, self._time_is_up)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _time_is_up(self) -> None:
        self._handle = None
        self._look()

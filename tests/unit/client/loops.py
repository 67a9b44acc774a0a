"""A loop whose clock moves only when nothing is left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

SECONDS = 60.0
"""What tests wait for is over in milliseconds on a machine that has time for it; what hangs fails instead."""

Test = Callable[..., Coroutine[Any, Any, None]]


class _Jumping(selectors.DefaultSelector):
    """Does not wait, but says how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_jumping_time(test: Test) -> Callable[..., None]:
    """Hours pass in no time, and exactly."""

    @wraps(test)
    def run(*instance: Any, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*instance, **fixtures))

    return run

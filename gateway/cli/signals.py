"""Ends long-running verbs when they are asked to end."""

from __future__ import annotations

import signal
from collections.abc import Callable


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` at Ctrl-C and SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())

"""Faults of our own, where they are caught so that one frame or peer cannot cost another."""

from __future__ import annotations

import logging
import time

TRACEBACK_SECONDS = 10.0
"""At most one traceback in so many seconds: what a peer can cause it can cause again, a thousand times a second."""


class RateLimitedFaultLog:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._last = -TRACEBACK_SECONDS

    def log_exception(self, where: str) -> None:
        """Logs the exception that is being handled."""
        now = time.monotonic()
        if now - self._last >= TRACEBACK_SECONDS:
            self._last = now
            self._log.exception("internal error %s", where)

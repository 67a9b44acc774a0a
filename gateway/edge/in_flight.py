"""Bounds what an edge has received and Kafka has not acknowledged yet. Beyond the bound listeners stop."""

from __future__ import annotations

from collections.abc import Callable

RESUME_SHARE = 0.5
"""Listeners that stopped go on when so much of the bound is free again; less would flap."""
BEHIND_SHARE = 1 / 128
"""The share of the bound beyond which frames queue for Kafka. Streams with more to be read wait then, so that the
frames of all others do not stand behind theirs. A megabyte keeps Kafka as busy as two do."""


class InFlightBytes:
    """Counts the bytes in flight. `bytes` and `is_full` may be read from any thread."""

    def __init__(self, bound_bytes: int) -> None:
        self._bound = bound_bytes
        self._listeners: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.bytes = 0
        self.is_full = False

    @property
    def is_behind(self) -> bool:
        """True while more waits for Kafka than keeps it busy."""
        return self.bytes > self._bound * BEHIND_SHARE

    def when_full(self, stop: Callable[[], None], resume: Callable[[], None]) -> None:
        """Adds functions that are called when the bound is reached, and when the bytes have fallen well below it."""
        self._listeners.append((stop, resume))

    def reconfigure(self, bound_bytes: int) -> None:
        self._bound = bound_bytes
        self.add(0)

    def add(self, size: int) -> None:
        """Adds bytes that were received, or takes away those that are settled."""
        self.bytes += size
        if not self.is_full and self.bytes >= self._bound:
            self.is_full = True
            for stop, _ in self._listeners:
                stop()
        elif self.is_full and self.bytes <= self._bound * RESUME_SHARE:
            self.is_full = False
            for _, resume in self._listeners:
                resume()

"""Tracks when a peer last finished a frame, from which its idleness is measured."""

from __future__ import annotations


class ReceiveProgress:
    """Tracks whether a peer makes progress: one that sends bytes but never a whole frame makes none.

    `at` is the time of the last progress.
    """

    def __init__(self, now: float) -> None:
        self.has_heard = False
        self.at = now
        self._buffered_bytes = 0

    def received(self, size: int, buffered_bytes: int, now: float) -> None:
        """Notes a read of so many bytes, after which the session still buffers `buffered_bytes`."""
        self.has_heard = True
        if buffered_bytes < self._buffered_bytes + size:  # something whole was in it
            self.at = now
        self._buffered_bytes = buffered_bytes

"""Notices a lane that does nothing although there is something to do."""

from __future__ import annotations

from dataclasses import dataclass

STALLED_SECONDS = 60.0
"""A broker that is away, or a JVM that was frozen, is back sooner. What still stands is a worker that hangs: the query
then begins anew, with another one."""


@dataclass(slots=True)
class StallDetector:
    """Follows one lane."""

    _processed: int = -1
    _since: float = 0.0

    def observe(self, now: float, end: int, processed: int) -> bool:
        """True if nothing has been done for STALLED_SECONDS, although the log's end is further on."""
        if processed != self._processed or end <= processed:
            self._processed, self._since = processed, now
        return now - self._since > STALLED_SECONDS

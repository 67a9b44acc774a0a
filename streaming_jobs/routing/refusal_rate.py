"""Says how many refused frames get a record of their own in `rejected`.

That is what a reader of the topic expects. But a record costs the router's sink ten times what everything else about a
forged frame costs, so in a flood the frames of one raw record share records.
"""

from __future__ import annotations

RECORDS_PER_SECOND = 1_000
"""A tenth of a core at most, at 90 microseconds a record."""
BURST_RECORDS = 5_000


class RefusalRate:
    """Counts by the time of the raw log, so that a router that catches up does as it did."""

    def __init__(self) -> None:
        self._records_left = BURST_RECORDS
        self._second = 0

    def take(self, count: int, log_seconds: int) -> int:
        """Returns how many of so many frames get a record each."""
        passed = max(0, log_seconds - self._second)
        self._second += passed
        self._records_left = min(BURST_RECORDS, self._records_left + passed * RECORDS_PER_SECOND)
        taken = min(count, self._records_left)
        self._records_left -= taken
        return taken

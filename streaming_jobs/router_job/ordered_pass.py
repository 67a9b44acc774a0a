"""Routes the records of one raw partition, each with the memory of exactly those before it.

The memory *stands before* an offset: it holds the ids that the records below it have added.

1. A record at that offset is routed, and the memory then stands before the next one.
2. Any other offset means that the memory is not of this place: the worker is new, or Spark tries a batch again. Then
   the ids come from the snapshot that the driver made of Spark's state when the query began (`snapshot`). It stands
   before one offset, that of the last commit, and serves no other.
3. Where there is no snapshot before the offset at hand, NoMemory ends the task, and with it the query. The lane begins
   again from the last commit, with a new snapshot. So no record is ever routed with a memory that is not its own.
4. While a record is being routed the memory stands nowhere: a failure leaves it with a part of the record.
"""

from __future__ import annotations

import time
from pathlib import Path

from streaming_jobs.router_job.snapshot import read_snapshot
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.record_outputs import RoutedRecord


class OrderedPass:
    """Wraps the row functions of one worker.

    Args:
        checkpoint: the router's folder, where the snapshots are.
    """

    def __init__(self, rows: FrameRouter, checkpoint: Path) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._stands_before: tuple[int, int] | None = None
        self.rebuild_seconds = 0.0
        """The time that the last reading of the memory took."""

    def stands_before(self, partition: int, offset: int) -> bool:
        """True if the memory holds what the records before this offset have left, and nothing else."""
        return self._stands_before == (partition, offset)

    def route(self, value: bytes, partition: int, offset: int, now_seconds: int) -> RoutedRecord:
        """Returns what the record gives; raises NoMemory where that cannot be told."""
        if not self.stands_before(partition, offset):
            self._rebuild(partition, offset)
        self._stands_before = None
        routed = self._rows.route_record(value, partition, offset, now_seconds)
        self._stands_before = partition, offset + 1
        return routed

    def _rebuild(self, partition: int, offset: int) -> None:
        started_at = time.monotonic()
        self._rows.known = read_snapshot(self._checkpoint, partition, offset, self._rows.horizon_seconds)
        self.rebuild_seconds = time.monotonic() - started_at

"""Routes the records of one raw partition, each with the memory of exactly those before it.

The memory *stands before* an offset: it holds the ids that the records below it have added.

1. A record at that offset is routed, and the memory then stands before the next one.
2. Any other offset means that the memory is not of this place: the worker is new, or Spark tries a batch again. Then
   the ids come from the lane's files (`id_log`), as they stood before this offset. Each record adds its ids to them.
   When a query begins, the driver makes sure that they reach the last commit.
3. Where no files stand before the offset at hand, NoMemory ends the task, and with it the query. The lane begins again
   from the last commit, with files from Spark's state. So no record is ever routed with a memory that is not its own.
4. While a record is being routed the memory stands nowhere: a failure leaves it with a part of the record.
"""

from __future__ import annotations

import time
from pathlib import Path

from streaming_jobs.router_job.id_log import IdLog
from streaming_jobs.router_job.snapshot import read_snapshot
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.record_outputs import RoutedRecord


class OrderedPass:
    """Wraps the row functions of one worker.

    Args:
        checkpoint: the router's folder, where the lanes' files are.
    """

    def __init__(self, rows: FrameRouter, checkpoint: Path) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._stands_before: tuple[int, int] | None = None
        self._id_log: IdLog | None = None
        self.rebuild_seconds = 0.0
        """The time that the last reading of the memory took."""

    def stands_before(self, partition: int, offset: int) -> bool:
        """True if the memory holds what the records before this offset have left, and nothing else."""
        return self._stands_before == (partition, offset)

    def route(self, value: bytes, partition: int, offset: int, now_seconds: int) -> RoutedRecord:
        """Returns what the record gives; raises NoMemory where that cannot be told."""
        id_log = self.prepare(partition, offset)
        self._stands_before = None
        routed = self._rows.route_record(value, partition, offset, now_seconds)
        id_log.add(offset + 1, routed.log_seconds, routed.ids)
        self._stands_before = partition, offset + 1
        return routed

    def prepare(self, partition: int, offset: int) -> IdLog:
        """Reads the memory of this place, if it is not there. Returns where to add the record's ids."""
        if self._id_log is not None and self.stands_before(partition, offset):
            return self._id_log
        started_at = time.monotonic()
        self.close()
        self._rows.known, self._id_log = read_snapshot(self._checkpoint, partition, offset, self._rows.horizon_seconds)
        self._stands_before = partition, offset
        self.rebuild_seconds = time.monotonic() - started_at
        return self._id_log

    def close(self) -> None:
        """Forgets the place, and closes the lane's files."""
        self._stands_before = None
        if self._id_log is not None:
            self._id_log.close()
            self._id_log = None

"""The ids that Spark's state holds, written into the files that a lane's worker begins with (see `id_log`).

The driver does so before a query starts, where the files do not reach the last commit: by Spark's own `statestore`
source. The rows never pass through the driver: the tasks that read the state write the file, on the checkpoint's file
system.

Where partitions were added, nodes have moved to them. So the lanes that were there commit what they had open. A lane
that has never committed, beside one that has, then makes the driver write the ids of all lanes into a file that each
worker reads too (`carry_over`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from streaming_jobs.router_job.checkpoint import committed_offsets, last_commit
from streaming_jobs.router_job.id_log import (
    IdLog,
    NoMemory,
    ids_folder,
    part_path,
    read_part,
    read_parts,
    remove_other_parts,
    write_part,
)
from streaming_jobs.router_job.plan import IDS, LOG_TIME
from streaming_jobs.routing.known_ids import KnownIds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_PARTITIONS = 0xFFFFFFFF
CARRIED_SECONDS = 86_400.0
"""Ids that were carried over are read for a day: more than any replay window, and than any log time is behind."""


def carried_path(checkpoint: Path) -> Path:
    return checkpoint / "ids" / "carried"


def ensure_snapshot(
    spark: SparkSession, lane: Path, checkpoint: Path, partition: int, offset: int, keep_seconds: int
) -> None:
    """Writes what the state of the lane's last commit holds, if the worker's own files do not hold it.

    Files are trusted up to the last commit. A query that begins behind it, because the log has a gap, reads the state.
    """
    is_at_commit = committed_offsets(lane).get(partition) == offset
    if not is_at_commit or not has_snapshot(checkpoint, partition, offset, keep_seconds):
        write_snapshot(spark, lane, checkpoint, partition, offset)


def write_snapshot(spark: SparkSession, lane: Path, checkpoint: Path, partition: int, offset: int) -> None:
    """Writes what the state of the lane's last commit holds; no ids where there is no commit.

    Args:
        offset: where the query will begin.
    """
    write = SnapshotWriter(str(checkpoint), partition, offset)
    if last_commit(lane) is None:
        write(())
    else:
        _stored_rows(spark, lane).sortWithinPartitions(LOG_TIME).foreachPartition(write)


def has_snapshot(checkpoint: Path, partition: int, offset: int, keep_seconds: int) -> bool:
    """Returns whether the files hold what must be known before an offset."""
    try:
        read_parts(ids_folder(checkpoint, partition), partition, offset, keep_seconds)
    except (NoMemory, OSError):
        return False
    return True


def carry_over(spark: SparkSession, checkpoint: Path, lanes: Sequence[Path], now: float) -> None:
    """Writes the ids of all lanes for all lanes, where a lane begins beside others that have committed."""
    path = carried_path(checkpoint)
    if path.exists() and now - path.stat().st_mtime > CARRIED_SECONDS:
        path.unlink()
    committed = [lane for lane in lanes if last_commit(lane) is not None]
    if 0 < len(committed) < len(lanes):
        rows = reduce(DataFrame.union, [_stored_rows(spark, lane) for lane in committed]).coalesce(1)
        rows.sortWithinPartitions(LOG_TIME).foreachPartition(CarriedWriter(str(checkpoint)))


def _stored_rows(spark: SparkSession, lane: Path) -> DataFrame:
    """Returns the log time and the ids of each record that the state of the last commit holds."""
    rows = spark.read.format("statestore").load(str(lane)).select(f"key.{LOG_TIME}", f"key.{IDS}")
    return rows.selectExpr(f"unix_seconds({LOG_TIME}) AS {LOG_TIME}", IDS).coalesce(1)


class SnapshotWriter:
    """Writes a lane's rows, in one of Spark's tasks."""

    def __init__(self, checkpoint: str, partition: int, offset: int) -> None:
        self._checkpoint = checkpoint
        self._partition = partition
        self._offset = offset

    def __call__(self, rows: Iterable[Any]) -> None:
        path = part_path(ids_folder(Path(self._checkpoint), self._partition), self._offset)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_part(path, self._partition, self._offset, rows)
        remove_other_parts(path)


class CarriedWriter:
    """Writes the rows of all lanes behind those that were carried over before, in one of Spark's tasks."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = checkpoint

    def __call__(self, rows: Iterable[Any]) -> None:
        path = carried_path(Path(self._checkpoint))
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier = read_part(path, ALL_PARTITIONS, 0).rows() if path.exists() else ()
        write_part(path, ALL_PARTITIONS, 0, chain(earlier, rows), is_durable=True)


def read_snapshot(checkpoint: Path, partition: int, offset: int, horizon_seconds: int) -> tuple[KnownIds, IdLog]:
    """Returns the ids before this offset, and where to add those of the records from there on.

    Raises NoMemory if there are no such files, or they are damaged.
    """
    folder, known_ids = ids_folder(checkpoint, partition), KnownIds(horizon_seconds)
    try:
        parts = read_parts(folder, partition, offset, known_ids.keep_seconds)
        if (path := carried_path(checkpoint)).exists():
            carried = read_part(path, ALL_PARTITIONS, 0)
            known_ids.restore(carried.rows(), carried.size_bytes)
            known_ids.log_seconds = 0  # that was the time of lanes that may be far ahead of this one
        known_ids.restore(chain.from_iterable(part.rows() for part in parts), sum(part.size_bytes for part in parts))
    except OSError as error:
        raise NoMemory(f"no ids to begin with before offset {offset} of partition {partition}: {error}") from None
    return known_ids, IdLog(folder, partition, parts, known_ids.keep_seconds)

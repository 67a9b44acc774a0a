"""The ids that Spark's state holds, written into the files that a lane's worker begins with (see `id_log`).

The driver does so before a query starts, where the files do not reach the last commit: by Spark's own `statestore`
source. The rows never pass through the driver: the tasks that read the state write the file, on the checkpoint's file
system.

Where partitions were added, nodes have moved. So a lane that has never committed, beside one that has, makes the driver
copy what each lane knows into a file, which the workers of all other lanes read too (`carry_over_files`). A lane's own
worker does not read that copy: it holds what was open too, and the worker routes that again. Where some lane's files do
not hold all that was routed, the lanes commit what they had open, and Spark's state is copied (`carry_over_state`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from streaming_jobs.router_job.checkpoint import committed_offsets, last_commit
from streaming_jobs.router_job.counts import path_of, read_counts
from streaming_jobs.router_job.id_log import (
    IdLog,
    NoMemory,
    ids_folder,
    part_path,
    read_all_parts,
    read_part,
    read_parts,
    remove_other_parts,
    write_part,
)
from streaming_jobs.router_job.plan import IDS, LOG_TIME
from streaming_jobs.routing.known_ids import KnownIds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CARRIED_SECONDS = 86_400.0
"""Ids that were carried over are read for a day: more than any replay window, and than any log time is behind."""


def carried_path(checkpoint: Path, partition: int) -> Path:
    """Returns where the ids are that this lane had when partitions were added."""
    return checkpoint / "ids" / f"carried-{partition}"


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


def begun_lanes(checkpoint: Path, lanes: Sequence[Path]) -> dict[int, int]:
    """Returns the first offset that was never routed, of each lane that has begun, by number."""
    begun = {}
    for number, lane in enumerate(lanes):
        if lane.exists():
            counts = read_counts(path_of(checkpoint, number))
            begun[number] = max(committed_offsets(lane).get(number, 0), counts.counted if counts else 0)
    return begun


def must_carry_over(lanes: Sequence[Path]) -> bool:
    """Returns whether a lane begins beside others that have begun or committed before."""
    begun = sum(lane.exists() for lane in lanes)
    committed = sum(last_commit(lane) is not None for lane in lanes)
    return 0 < begun < len(lanes) or 0 < committed < len(lanes)


def carry_over_files(checkpoint: Path, begun: Mapping[int, int], keep_seconds: int) -> bool:
    """Copies what the lanes' workers have written, also behind the last commit; False if some of it does not hold.

    No worker may write meanwhile.

    Args:
        begun: see `begun_lanes`: a lane's files must reach there.
    """
    try:
        by_lane = {
            number: read_all_parts(ids_folder(checkpoint, number), number, routed_to, keep_seconds)
            for number, routed_to in begun.items()
        }
    except (NoMemory, OSError):
        return False
    for number, parts in by_lane.items():
        CarriedWriter(str(checkpoint), number)(chain.from_iterable(part.rows() for part in parts))
    return True


def carry_over_state(spark: SparkSession, checkpoint: Path, lanes: Sequence[Path]) -> None:
    """Copies what Spark's state holds of each lane's last commit."""
    for number, lane in enumerate(lanes):
        if last_commit(lane) is not None:
            rows = _stored_rows(spark, lane).sortWithinPartitions(LOG_TIME)
            rows.foreachPartition(CarriedWriter(str(checkpoint), number))


def forget_carried(checkpoint: Path, now: float) -> None:
    """Removes the copies that nobody needs any more."""
    for path in (checkpoint / "ids").glob("carried*"):
        if now - path.stat().st_mtime > CARRIED_SECONDS:
            path.unlink()


def _carried_lanes(checkpoint: Path) -> set[int]:
    numbers = (path.name.partition("-")[2] for path in (checkpoint / "ids").glob("carried-*"))
    return {int(number) for number in numbers if number.isdigit()}


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
    """Writes a lane's rows behind those that were carried over before, in one of Spark's tasks or in the driver."""

    def __init__(self, checkpoint: str, partition: int) -> None:
        self._checkpoint = checkpoint
        self._partition = partition

    def __call__(self, rows: Iterable[Any]) -> None:
        path = carried_path(Path(self._checkpoint), self._partition)
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier = read_part(path, self._partition, 0).rows() if path.exists() else ()
        write_part(path, self._partition, 0, chain(earlier, rows), is_durable=True)


def read_snapshot(checkpoint: Path, partition: int, offset: int, horizon_seconds: int) -> tuple[KnownIds, IdLog]:
    """Returns the ids before this offset, and where to add those of the records from there on.

    Raises NoMemory if there are no such files, or they are damaged.
    """
    folder, known_ids = ids_folder(checkpoint, partition), KnownIds(horizon_seconds)
    try:
        parts = read_parts(folder, partition, offset, known_ids.keep_seconds)
        for other in _carried_lanes(checkpoint) - {partition}:
            carried = read_part(carried_path(checkpoint, other), other, 0)
            known_ids.restore(carried.rows(), carried.size_bytes)
            known_ids.log_seconds = 0  # that was the time of a lane that may be far ahead of this one
        known_ids.restore(chain.from_iterable(part.rows() for part in parts), sum(part.size_bytes for part in parts))
    except OSError as error:
        raise NoMemory(f"no ids to begin with before offset {offset} of partition {partition}: {error}") from None
    return known_ids, IdLog(folder, partition, parts, known_ids.keep_seconds)

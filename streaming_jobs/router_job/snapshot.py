"""The ids that Spark's state holds, as a file that a lane's worker begins with.

The driver writes one before each query starts, read from the state of the last commit by Spark's own `statestore`
source. The rows never pass through the driver: the tasks that read the state write the file, on the checkpoint's file
system. It names the offset before which it stands, and serves no other.

Where partitions were added, nodes have moved to them. So the lanes that were there commit what they had open. A lane
that has never committed, beside one that has, then makes the driver write the ids of all lanes into a file that each
worker reads too (`carry_over`).

    b"MGK" | u8 version | u32 partition | u64 offset | rows | b"end" | u32 CRC of all before       (little-endian)
    row: i64 log time | u32 length | ids, as `id_rows` packs them
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pyspark.sql import DataFrame

from streaming_jobs.router_job.checkpoint import last_commit
from streaming_jobs.router_job.plan import IDS, LOG_TIME
from streaming_jobs.routing.known_ids import KnownIds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 2
ALL_PARTITIONS = 0xFFFFFFFF
CARRIED_SECONDS = 86_400.0
"""Ids that were carried over are read for a day: more than any replay window, and than any log time is behind."""
PIECE_BYTES = 1 << 20
"""So much of a file is in memory at once: one with ten million ids has 85 MiB."""
_HEAD = struct.Struct("<3sBIQ")
_ROW = struct.Struct("<qI")
_END, _CRC = b"end", struct.Struct("<I")
_MAGIC = b"MGK"


class NoMemory(Exception):
    """No snapshot stands before the record at hand. The lane must begin again from its last commit."""


def snapshot_path(checkpoint: Path, partition: int) -> Path:
    return checkpoint / "ids" / f"partition-{partition}"


def carried_path(checkpoint: Path) -> Path:
    return checkpoint / "ids" / "carried"


def write_snapshot(spark: SparkSession, lane: Path, path: Path, partition: int, offset: int) -> None:
    """Writes what the state of the lane's last commit holds; no ids where there is no commit.

    Args:
        offset: where the query will begin.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write = SnapshotWriter(str(path), partition, offset)
    if last_commit(lane) is None:
        write(())
    else:
        _stored_rows(spark, lane).sortWithinPartitions(LOG_TIME).foreachPartition(write)


def carry_over(spark: SparkSession, checkpoint: Path, lanes: Sequence[Path], now: float) -> None:
    """Writes the ids of all lanes for all lanes, where a lane begins beside others that have committed."""
    path = carried_path(checkpoint)
    if path.exists() and now - path.stat().st_mtime > CARRIED_SECONDS:
        path.unlink()
    committed = [lane for lane in lanes if last_commit(lane) is not None]
    if 0 < len(committed) < len(lanes):
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = reduce(DataFrame.union, [_stored_rows(spark, lane) for lane in committed]).coalesce(1)
        write = SnapshotWriter(str(path), ALL_PARTITIONS, 0, with_earlier=True)
        rows.sortWithinPartitions(LOG_TIME).foreachPartition(write)


def _stored_rows(spark: SparkSession, lane: Path) -> DataFrame:
    """Returns the log time and the ids of each record that the state of the last commit holds."""
    rows = spark.read.format("statestore").load(str(lane)).select(f"key.{LOG_TIME}", f"key.{IDS}")
    return rows.selectExpr(f"unix_seconds({LOG_TIME}) AS {LOG_TIME}", IDS).coalesce(1)


class SnapshotWriter:
    """Writes the file, in one of Spark's tasks.

    Args:
        with_earlier: the rows of the file that is there stand before the new ones.
    """

    def __init__(self, path: str, partition: int, offset: int, *, with_earlier: bool = False) -> None:
        self._path = path
        self._with_earlier = with_earlier
        self._head = _HEAD.pack(_MAGIC, VERSION, partition, offset)

    def __call__(self, rows: Iterable[Any]) -> None:
        path = Path(self._path)
        fresh = path.with_name(f"{path.name}.new")
        with fresh.open("wb", PIECE_BYTES) as file:
            crc = 0
            for part in self._parts(rows):
                crc = zlib.crc32(part, crc)
                file.write(part)
            file.write(_CRC.pack(crc))
            if self._with_earlier:  # a lane's own need not outlive the machine: its next start writes it again
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)

    def _parts(self, rows: Iterable[Any]) -> Iterator[bytes]:
        yield self._head
        path = Path(self._path)
        earlier = _rows_of(path) if self._with_earlier and path.exists() else ()
        for log_seconds, ids in chain(earlier, rows):
            yield _ROW.pack(log_seconds, len(ids)) + bytes(ids)
        yield _END


def read_snapshot(checkpoint: Path, partition: int, offset: int, horizon_seconds: int) -> KnownIds:
    """Returns the ids before this offset. Raises NoMemory if there is no such snapshot, or it is damaged."""
    path = snapshot_path(checkpoint, partition)
    known_ids = KnownIds(horizon_seconds)
    try:
        with path.open("rb", PIECE_BYTES) as file:
            head = _check(file)
            if head != (_MAGIC, VERSION, partition, offset):
                raise NoMemory(f"{path} does not stand before offset {offset} of partition {partition}: {head}")
            if (carried := carried_path(checkpoint)).exists():
                known_ids.restore(_rows_of(carried), carried.stat().st_size)
                known_ids.log_seconds = 0  # that was the time of lanes that may be far ahead of this one
            known_ids.restore(_rows(file), path.stat().st_size)
    except OSError as error:
        raise NoMemory(f"no ids to begin with before offset {offset} of partition {partition}: {error}") from None
    return known_ids


def _rows_of(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb", PIECE_BYTES) as file:
        _check(file)
        yield from _rows(file)


def _check(file: BinaryIO) -> tuple[Any, ...]:
    """Returns the head of a file; raises NoMemory if it is not one that was written to its end."""
    remaining = os.fstat(file.fileno()).st_size - _CRC.size
    crc, head, last = 0, b"", b""
    while remaining > 0 and (piece := file.read(min(remaining, PIECE_BYTES))):
        crc = zlib.crc32(piece, crc)
        head, last, remaining = head or piece, last[-len(_END) :] + piece, remaining - len(piece)
    is_whole = len(head) >= _HEAD.size + len(_END) and last.endswith(_END)
    if not is_whole or file.read() != _CRC.pack(crc):
        raise NoMemory(f"{file.name} is damaged")
    return _HEAD.unpack_from(head)


def _rows(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yields the rows of a file that was checked, of which only a piece is in memory at a time."""
    end = os.fstat(file.fileno()).st_size - len(_END) - _CRC.size
    at = file.seek(_HEAD.size)
    while at < end:
        log_seconds, size = _ROW.unpack(file.read(_ROW.size))
        yield log_seconds, file.read(size)
        at += _ROW.size + size

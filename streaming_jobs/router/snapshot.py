"""The ids that Spark's state holds, as a file that a lane's worker begins with.

The driver writes one before each query starts, read from the state of the last commit by Spark's own `statestore`
source. The rows never pass through the driver: the tasks that read the state write the file, on the checkpoint's file
system. It names the offset before which it stands, and serves no other.

    b"MGK" | u8 version | u32 partition | u64 offset | rows | b"end" | u32 CRC of all before       (little-endian)
    row: i64 log time | u32 length | ids, as `KnownIds.added_row` packs them
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming_jobs.router.plan import IDS, LOG_TIME
from streaming_jobs.routing.known_ids import KnownIds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 1
_HEAD = struct.Struct("<3sBIQ")
_ROW = struct.Struct("<qI")
_END, _CRC = b"end", struct.Struct("<I")
_MAGIC = b"MGK"


class NoMemory(Exception):
    """No snapshot stands before the record at hand. The lane must begin again from its last commit."""


def snapshot_path(checkpoint: Path, partition: int) -> Path:
    return checkpoint / "ids" / f"partition-{partition}"


def write_snapshot(spark: SparkSession, lane: Path, path: Path, partition: int, offset: int) -> None:
    """Writes what the state of the lane's last commit holds; no ids where there is no commit.

    Args:
        offset: where the query will begin.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write = SnapshotWriter(str(path), partition, offset)
    if not (lane / "commits").exists() or not any((lane / "commits").iterdir()):
        write(())
        return
    rows = spark.read.format("statestore").load(str(lane)).select(f"key.{LOG_TIME}", f"key.{IDS}")
    rows = rows.selectExpr(f"unix_seconds({LOG_TIME}) AS {LOG_TIME}", IDS).coalesce(1)
    rows.sortWithinPartitions(LOG_TIME).foreachPartition(write)


class SnapshotWriter:
    """Writes the file, in one of Spark's tasks."""

    def __init__(self, path: str, partition: int, offset: int) -> None:
        self._path = path
        self._head = _HEAD.pack(_MAGIC, VERSION, partition, offset)

    def __call__(self, rows: Iterable[Any]) -> None:
        path = Path(self._path)
        fresh = path.with_name(f"{path.name}.new")
        with fresh.open("wb") as file:
            crc = 0
            for part in self._parts(rows):
                crc = zlib.crc32(part, crc)
                file.write(part)
            file.write(_CRC.pack(crc))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def _parts(self, rows: Iterable[Any]) -> Iterator[bytes]:
        yield self._head
        for log_seconds, ids in rows:
            yield _ROW.pack(log_seconds, len(ids)) + bytes(ids)
        yield _END


def read_snapshot(checkpoint: Path, partition: int, offset: int, horizon_seconds: int) -> KnownIds:
    """Returns the ids of the snapshot before this offset. Raises NoMemory if there is none, or it is damaged."""
    path = snapshot_path(checkpoint, partition)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoMemory(f"no ids to begin with before offset {offset} of partition {partition}: {error}") from None
    begin, end = _HEAD.size, len(data) - _CRC.size
    is_whole = end - begin >= len(_END) and data[end - len(_END) : end] == _END
    if not is_whole or zlib.crc32(memoryview(data)[:end]) != _CRC.unpack_from(data, end)[0]:
        raise NoMemory(f"{path} is damaged")
    stands_before = _HEAD.unpack_from(data)
    if stands_before != (_MAGIC, VERSION, partition, offset):
        raise NoMemory(f"{path} does not stand before offset {offset} of partition {partition}: {stands_before}")
    return _known(data, begin, end - len(_END), horizon_seconds)


def _known(data: bytes, at: int, end: int, horizon_seconds: int) -> KnownIds:
    known = KnownIds(horizon_seconds)
    known.restore(_rows(data, at, end))
    return known


def _rows(data: bytes, at: int, end: int) -> Iterator[tuple[int, bytes]]:
    while at < end:
        log_seconds, size = _ROW.unpack_from(data, at)
        at += _ROW.size + size
        yield log_seconds, data[at - size : at]

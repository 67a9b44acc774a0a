"""The file of message ids that a lane's worker begins with."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from streaming_jobs.router_job.snapshot import NoMemory, SnapshotWriter, read_snapshot, snapshot_path, write_snapshot
from streaming_jobs.routing.known_ids import KnownIds, message_key

HORIZON = 420
BEGIN = 1_000_000_000
PARTITION, OFFSET = 3, 1 << 40
Row = tuple[int, bytes]


def packet_key(number: int) -> bytes:
    return bytes(16) + number.to_bytes(4, "big")


def rows_of(known: KnownIds, count: int, ids_per_row: int) -> list[Row]:
    """Admits ids row by row, a second apart, and returns the rows as Spark stores them."""
    rows = []
    for at in range(count):
        log_seconds = known.advance(BEGIN + at % HORIZON, BEGIN + HORIZON)
        numbers = range(at * ids_per_row, (at + 1) * ids_per_row)
        known.admit([packet_key(number) for number in numbers], [log_seconds] * ids_per_row)
        rows.append((log_seconds, known.added_row()))
    return rows


def write(checkpoint: Path, rows: list[Row]) -> Path:
    path = snapshot_path(checkpoint, PARTITION)
    path.parent.mkdir(parents=True, exist_ok=True)
    SnapshotWriter(str(path), PARTITION, OFFSET)(rows)
    return path


def read(checkpoint: Path) -> KnownIds:
    return read_snapshot(checkpoint, PARTITION, OFFSET, HORIZON)


def test_what_was_known_is_known_again(tmp_path: Path) -> None:
    known = KnownIds(HORIZON)
    rows = rows_of(known, 3, 4)
    log_seconds = known.advance(BEGIN + 3, BEGIN + 3)
    known.admit([message_key("yamp\0node\0id"), packet_key(99)], [log_seconds] * 2)
    write(tmp_path, [*rows, (log_seconds, known.added_row())])
    again = read(tmp_path)
    assert (len(again), again.log_seconds) == (len(known), known.log_seconds) == (14, BEGIN + 3)
    asked = [*map(packet_key, range(12)), message_key("yamp\0node\0id"), packet_key(99), packet_key(100)]
    assert again.admit(asked, [log_seconds] * len(asked)) == [False] * 14 + [True]


def test_a_record_that_added_no_ids_moves_the_time_on_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, [(BEGIN, b""), (BEGIN + 7, b"")])
    assert (len(read(tmp_path)), read(tmp_path).log_seconds) == (0, BEGIN + 7)


def test_a_lane_that_has_never_committed_begins_without_ids(tmp_path: Path) -> None:
    spark = cast("Any", None)  # it is not asked
    for lane in (tmp_path / "lane-3", tmp_path / "lane-begun"):
        (tmp_path / "lane-begun" / "commits").mkdir(parents=True, exist_ok=True)
        write_snapshot(spark, lane, snapshot_path(tmp_path, PARTITION), PARTITION, OFFSET)
        assert len(read(tmp_path)) == 0


def test_a_hundred_thousand_ids_are_all_read(tmp_path: Path) -> None:
    known = KnownIds(HORIZON)
    path = write(tmp_path, rows_of(known, 400, 250))
    assert path.stat().st_size < 100_000 * 25
    again = read(tmp_path)
    assert len(again) == 100_000
    asked = [packet_key(number) for number in range(0, 100_500, 500)]
    assert again.admit(asked, [BEGIN + HORIZON] * len(asked)) == [False] * 200 + [True]


def test_none_is_no_memory(tmp_path: Path) -> None:
    with pytest.raises(NoMemory, match=f"before offset {OFFSET} of partition {PARTITION}"):
        read(tmp_path)


@pytest.mark.parametrize(("partition", "offset"), [(PARTITION, OFFSET + 1), (PARTITION, OFFSET - 1), (2, OFFSET)])
def test_one_of_another_place_serves_nobody(tmp_path: Path, partition: int, offset: int) -> None:
    file = write(tmp_path, rows_of(KnownIds(HORIZON), 2, 2))
    file.rename(snapshot_path(tmp_path, partition))
    with pytest.raises(NoMemory, match=f"does not stand before offset {offset}"):
        read_snapshot(tmp_path, partition, offset, HORIZON)


def test_one_of_another_version_serves_nobody(tmp_path: Path) -> None:
    file = write(tmp_path, [])
    data = bytearray(file.read_bytes()[:-4])
    data[3] += 1
    file.write_bytes(data + struct.pack("<I", zlib.crc32(data)))
    with pytest.raises(NoMemory, match="does not stand before"):
        read(tmp_path)


def test_whatever_byte_is_damaged_it_is_no_memory(tmp_path: Path) -> None:
    file = write(tmp_path, rows_of(KnownIds(HORIZON), 2, 2))
    whole = file.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        file.write_bytes(damaged)
        with pytest.raises(NoMemory, match="is damaged"):
            read(tmp_path)


def test_wherever_it_is_cut_it_is_no_memory(tmp_path: Path) -> None:
    file = write(tmp_path, rows_of(KnownIds(HORIZON), 2, 2))
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(NoMemory, match="is damaged"):
            read(tmp_path)


def test_a_writer_that_dies_leaves_the_one_before(tmp_path: Path) -> None:
    rows = rows_of(KnownIds(HORIZON), 2, 2)
    path = write(tmp_path, rows)

    def dying() -> Iterator[Row]:
        yield rows[0]
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        SnapshotWriter(str(path), PARTITION, OFFSET)(dying())
    assert len(read(tmp_path)) == 4

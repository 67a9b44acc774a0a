"""The ids that a lane's worker begins with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from streaming_jobs.router_job.counts import CountFile, path_of
from streaming_jobs.router_job.id_log import NoMemory, ids_folder, part_path
from streaming_jobs.router_job.snapshot import (
    CarriedWriter,
    SnapshotWriter,
    begun_lanes,
    carried_path,
    carry_over_files,
    ensure_snapshot,
    has_snapshot,
    must_carry_over,
    read_snapshot,
    write_snapshot,
)
from streaming_jobs.routing.known_ids import LATENESS_SECONDS, KnownIds, message_key

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
        log_seconds = known.advance(BEGIN + at, BEGIN + at)
        numbers = range(at * ids_per_row, (at + 1) * ids_per_row)
        known.admit([packet_key(number) for number in numbers], [log_seconds] * ids_per_row)
        rows.append((log_seconds, known.added_row()))
    return rows


def write(checkpoint: Path, rows: list[Row]) -> Path:
    SnapshotWriter(str(checkpoint), PARTITION, OFFSET)(rows)
    return part_path(ids_folder(checkpoint, PARTITION), OFFSET)


def read(checkpoint: Path) -> KnownIds:
    known, _ = read_snapshot(checkpoint, PARTITION, OFFSET, HORIZON)
    return known


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
        write_snapshot(spark, lane, tmp_path, PARTITION, OFFSET)
        assert len(read(tmp_path)) == 0


def test_a_hundred_thousand_ids_are_all_read(tmp_path: Path) -> None:
    known = KnownIds(HORIZON)
    path = write(tmp_path, rows_of(known, 400, 250))
    assert path.stat().st_size < 100_000 * 25
    again = read(tmp_path)
    assert len(again) == 100_000
    asked = [packet_key(number) for number in range(0, 100_500, 500)]
    assert again.admit(asked, [BEGIN + HORIZON] * len(asked)) == [False] * 200 + [True]


def test_a_snapshot_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    known = KnownIds(HORIZON)
    SnapshotWriter(str(tmp_path), PARTITION, OFFSET - 9)(rows_of(known, 2, 2))
    path = write(tmp_path, [])
    assert list(path.parent.iterdir()) == [path]
    assert len(read(tmp_path)) == 0


def test_the_driver_sees_whether_there_is_one(tmp_path: Path) -> None:
    keep_seconds = HORIZON + LATENESS_SECONDS
    assert not has_snapshot(tmp_path, PARTITION, OFFSET, keep_seconds)
    path = write(tmp_path, rows_of(KnownIds(HORIZON), 2, 2))
    assert has_snapshot(tmp_path, PARTITION, OFFSET, keep_seconds)
    assert not has_snapshot(tmp_path, PARTITION, OFFSET + 1, keep_seconds)
    path.write_bytes(path.read_bytes()[:-1])
    assert not has_snapshot(tmp_path, PARTITION, OFFSET, keep_seconds)


class AskedSpark:
    """Stands for a Spark whose state would be read."""

    @property
    def read(self) -> Any:
        raise InterruptedError


def committed_lane(folder: Path, offset: int) -> Path:
    for name, text in (("commits", "{}"), ("offsets", f'v1\n{{}}\n{{"demo.raw": {{"{PARTITION}": {offset}}}}}')):
        (folder / name).mkdir(parents=True)
        (folder / name / "7").write_text(text)
    return folder


def test_the_state_is_read_only_where_the_files_do_not_reach_the_last_commit(tmp_path: Path) -> None:
    lane, spark = committed_lane(tmp_path / "lane-3", OFFSET), cast("Any", AskedSpark())
    keep_seconds = HORIZON + LATENESS_SECONDS
    with pytest.raises(InterruptedError):
        ensure_snapshot(spark, lane, tmp_path, PARTITION, OFFSET, keep_seconds)
    path = write(tmp_path, rows_of(KnownIds(HORIZON), 2, 2))
    ensure_snapshot(spark, lane, tmp_path, PARTITION, OFFSET, keep_seconds)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InterruptedError):
        ensure_snapshot(spark, lane, tmp_path, PARTITION, OFFSET, keep_seconds)


def test_behind_a_gap_the_state_is_read(tmp_path: Path) -> None:
    lane, spark = committed_lane(tmp_path / "lane-3", OFFSET - 1), cast("Any", AskedSpark())
    write(tmp_path, [])
    with pytest.raises(InterruptedError):
        ensure_snapshot(spark, lane, tmp_path, PARTITION, OFFSET, HORIZON + LATENESS_SECONDS)


def test_what_was_carried_over_is_known_beside_a_lanes_own(tmp_path: Path) -> None:
    known = KnownIds(HORIZON)
    first, second, third = rows_of(known, 3, 2)
    for row in (first, second):
        CarriedWriter(str(tmp_path), PARTITION + 1)([row])
    write(tmp_path, [third])
    again = read(tmp_path)
    assert again.log_seconds == third[0]
    assert again.admit([packet_key(number) for number in range(7)], [BEGIN + 3] * 7) == [False] * 6 + [True]


def opened_lane(checkpoint: Path) -> list[Row]:
    """Writes the files of a lane that has committed one row, and routed two records since."""
    rows = rows_of(KnownIds(HORIZON), 3, 2)
    write(checkpoint, rows[:1])
    _, id_log = read_snapshot(checkpoint, PARTITION, OFFSET, HORIZON)
    for at, (log_seconds, ids) in enumerate(rows[1:], start=1):
        id_log.add(OFFSET + at, log_seconds, ids)
    id_log.close()
    return rows


KEEP = HORIZON + LATENESS_SECONDS


def test_other_lanes_know_what_a_lane_had_open_and_its_own_worker_routes_that_again(tmp_path: Path) -> None:
    opened_lane(tmp_path)
    SnapshotWriter(str(tmp_path), PARTITION + 1, 0)([])
    assert carry_over_files(tmp_path, {PARTITION: OFFSET + 2}, KEEP)
    other, _ = read_snapshot(tmp_path, PARTITION + 1, 0, HORIZON)
    keys = [packet_key(number) for number in range(7)]
    assert other.log_seconds == 0
    assert other.admit(keys, [BEGIN + 3] * 7) == [False] * 6 + [True]
    assert read(tmp_path).admit(keys, [BEGIN + 3] * 7) == [False] * 2 + [True] * 5


def test_a_copy_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, [])
    path = carried_path(tmp_path, PARTITION + 1)
    path.with_name(f"{path.name}.new").write_bytes(b"MGK")
    assert len(read(tmp_path)) == 0


def test_files_that_do_not_hold_all_that_was_routed_are_not_carried_over(tmp_path: Path) -> None:
    opened_lane(tmp_path)
    assert not carry_over_files(tmp_path, {PARTITION: OFFSET + 3}, KEEP)
    assert not carry_over_files(tmp_path, {PARTITION: OFFSET + 2, PARTITION + 1: 0}, KEEP)
    assert not carried_path(tmp_path, PARTITION).exists()


def test_ids_of_a_lane_that_is_far_ahead_take_the_place_of_none(tmp_path: Path) -> None:
    first, second = KnownIds(HORIZON), KnownIds(HORIZON)
    ahead = second.advance(BEGIN + 10 * KEEP, BEGIN + 10 * KEEP)
    CarriedWriter(str(tmp_path), PARTITION + 1)([*rows_of(first, 1, 2), (ahead, b"")])
    write(tmp_path, [])
    assert read(tmp_path).admit([packet_key(0)], [BEGIN]) == [False]


def test_what_was_routed_is_behind_the_last_commit_or_there(tmp_path: Path) -> None:
    lane = committed_lane(tmp_path / "lane-0", 7)
    for partition, routed in ((0, 3), (1, 5)):
        counts = CountFile(path_of(tmp_path, partition))
        counts.add(routed, {})
        counts.close()
    (tmp_path / "lane-1").mkdir()
    lanes = [lane, tmp_path / "lane-1", tmp_path / "lane-2"]
    assert begun_lanes(tmp_path, lanes) == {0: 4, 1: 6}


def test_ids_are_carried_over_where_a_lane_begins_beside_others(tmp_path: Path) -> None:
    begun, committed, new = tmp_path / "lane-0", committed_lane(tmp_path / "lane-1", 7), tmp_path / "lane-2"
    assert not must_carry_over([begun, new])
    begun.mkdir()
    assert must_carry_over([begun, new])
    assert must_carry_over([begun, committed])
    assert not must_carry_over([begun])
    assert not must_carry_over([committed])


def test_none_is_no_memory(tmp_path: Path) -> None:
    with pytest.raises(NoMemory, match=f"before offset {OFFSET} of partition {PARTITION}"):
        read(tmp_path)


def test_a_writer_that_dies_leaves_the_one_before(tmp_path: Path) -> None:
    rows = rows_of(KnownIds(HORIZON), 2, 2)
    write(tmp_path, rows)

    def dying() -> Iterator[Row]:
        yield rows[0]
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        SnapshotWriter(str(tmp_path), PARTITION, OFFSET)(dying())
    assert len(read(tmp_path)) == 4

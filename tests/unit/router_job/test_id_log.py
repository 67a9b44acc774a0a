"""The files that a lane's worker continues with each record."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming_jobs.router_job.id_log import (
    SPARE_SECONDS,
    IdLog,
    NoMemory,
    Row,
    part_path,
    read_all_parts,
    read_part,
    read_parts,
    remove_other_parts,
    write_part,
)
from streaming_jobs.routing.id_table import GENERATION_SECONDS

PARTITION, OFFSET, KEEP = 3, 1 << 40, 720
BEGIN = 1_000_000_000


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


_opened: list[IdLog] = []


def close_all() -> None:
    while _opened:
        _opened.pop().close()


def begun(folder: Path, rows: list[Row] | None = None) -> IdLog:
    """Returns the log behind a first part that came from Spark's state."""
    write_part(part_path(folder, OFFSET), PARTITION, OFFSET, rows or [])
    return reopened(folder, OFFSET)


def reopened(folder: Path, offset: int) -> IdLog:
    """Returns the log as a new worker continues it."""
    _opened.append(IdLog(folder, PARTITION, read_parts(folder, PARTITION, offset, KEEP), KEEP))
    return _opened[-1]


def rows_before(folder: Path, offset: int) -> list[Row]:
    parts = read_parts(folder, PARTITION, offset, KEEP)
    return [row for row in chain.from_iterable(part.rows() for part in parts) if row[1]]


def numbered(number: int, seconds: int = 1) -> Row:
    return BEGIN + number * seconds, b"ids of %d" % number


def add(log: IdLog, *numbers: int, seconds: int = 1) -> None:
    """Adds the rows of the records with these numbers, which follow OFFSET."""
    for number in numbers:
        log.add(OFFSET + number + 1, *numbered(number, seconds))


def parts_of(folder: Path) -> list[int]:
    return sorted(int(part.name) - OFFSET for part in folder.iterdir())


def test_each_row_stands_before_its_own_offset(tmp_path: Path) -> None:
    state = [numbered(-2), numbered(-1)]
    add(begun(tmp_path, state), *range(5))
    for count in range(6):
        assert rows_before(tmp_path, OFFSET + count) == [*state, *map(numbered, range(count))]


@pytest.mark.parametrize("offset", [OFFSET - 1, OFFSET + 3, 0])
def test_a_place_that_was_not_reached_has_no_memory(tmp_path: Path, offset: int) -> None:
    add(begun(tmp_path), 0, 1)
    with pytest.raises(NoMemory, match=f"stand before offset {offset}"):
        read_parts(tmp_path, PARTITION, offset, KEEP)


def test_no_row_is_read_before_those_of_the_state_are_whole(tmp_path: Path) -> None:
    write_part(part_path(tmp_path, OFFSET), PARTITION, OFFSET, [numbered(0), numbered(1)])
    with pytest.raises(NoMemory):
        read_part(part_path(tmp_path, OFFSET), PARTITION, OFFSET - 1)


def test_what_was_not_committed_is_cut_off(tmp_path: Path) -> None:
    add(begun(tmp_path), *range(5))
    log = reopened(tmp_path, OFFSET + 2)
    assert rows_before(tmp_path, OFFSET + 5), "it is there until the first row is added"
    log.add(OFFSET + 3, BEGIN + 9, b"another")
    assert rows_before(tmp_path, OFFSET + 3) == [numbered(0), numbered(1), (BEGIN + 9, b"another")]
    with pytest.raises(NoMemory):
        read_parts(tmp_path, PARTITION, OFFSET + 5, KEEP)


def test_parts_that_were_not_committed_are_removed(tmp_path: Path) -> None:
    add(begun(tmp_path), *range(5), seconds=GENERATION_SECONDS // 2)
    assert len(parts_of(tmp_path)) > 2
    add(reopened(tmp_path, OFFSET + 1), 1)
    assert parts_of(tmp_path) == [0, 1]
    assert rows_before(tmp_path, OFFSET + 2) == [numbered(0, GENERATION_SECONDS // 2), numbered(1)]


@given(st.lists(st.integers(0, 500), min_size=1, max_size=40), st.data())
def test_what_must_be_known_is_read_whenever_the_worker_begins_anew(
    tmp_path_factory: pytest.TempPathFactory, pauses: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    log, now, added = begun(folder), BEGIN, list[Row]()
    for number, pause in enumerate(pauses):
        now += pause
        if data.draw(st.booleans()):
            log = reopened(folder, OFFSET + number)
        added.append((now, b"%d" % number))
        log.add(OFFSET + number + 1, *added[-1])
    needed = [row for row in added if row[0] >= now - KEEP]
    assert rows_before(folder, OFFSET + len(added)) == needed
    sizes = [part.size_bytes for part in read_parts(folder, PARTITION, OFFSET + len(added), KEEP)]
    assert sum(sizes) >= sum(24 + len(ids) for _, ids in needed)
    close_all()


def test_rows_that_nobody_needs_go(tmp_path: Path) -> None:
    log, seconds = begun(tmp_path), 60
    for number in range(200):
        add(log, number, seconds=seconds)
        oldest = BEGIN + number * seconds - KEEP - SPARE_SECONDS - 2 * GENERATION_SECONDS
        parts = [read_part(part_path(tmp_path, OFFSET + part), PARTITION) for part in parts_of(tmp_path)]
        assert all(second > oldest - seconds for part in parts[1:] for second, _ in part.rows())
        assert len(parts) <= 6


def test_a_part_that_is_missing_is_no_memory(tmp_path: Path) -> None:
    add(begun(tmp_path), *range(30), seconds=100)
    assert len(parts_of(tmp_path)) > 3
    for part in parts_of(tmp_path)[-3:]:
        path = part_path(tmp_path, OFFSET + part)
        whole = path.read_bytes()
        path.unlink()
        with pytest.raises(NoMemory):
            read_parts(tmp_path, PARTITION, OFFSET + 30, KEEP)
        path.write_bytes(whole)
    assert rows_before(tmp_path, OFFSET + 30)


def test_parts_of_two_histories_are_no_memory(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, first in ((one, b"x"), (other, b"y")):
        folder.mkdir()
        log = begun(folder)
        log.add(OFFSET + 1, BEGIN, first)
        add(log, *range(1, 6))
    newest = parts_of(one)[-1]
    part_path(one, OFFSET + newest).replace(part_path(other, OFFSET + newest))
    with pytest.raises(NoMemory):
        read_parts(other, PARTITION, OFFSET + 6, KEEP)


def test_two_workers_at_once_spoil_the_file_for_both(tmp_path: Path) -> None:
    add(begun(tmp_path), 0, 1)
    one, other = reopened(tmp_path, OFFSET + 1), reopened(tmp_path, OFFSET + 1)
    one.add(OFFSET + 2, BEGIN, b"of one")
    other.add(OFFSET + 2, BEGIN, b"of the other")
    one.add(OFFSET + 3, BEGIN, b"of one")
    with pytest.raises(NoMemory):
        read_parts(tmp_path, PARTITION, OFFSET + 3, KEEP)


def test_whatever_byte_is_damaged_it_is_no_memory(tmp_path: Path) -> None:
    path = part_path(tmp_path, OFFSET)
    add(begun(tmp_path, [numbered(-1)]), 0)
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(NoMemory):
            read_parts(tmp_path, PARTITION, OFFSET + 1, KEEP)


def test_wherever_it_is_cut_it_is_no_memory(tmp_path: Path) -> None:
    path = part_path(tmp_path, OFFSET)
    add(begun(tmp_path, [numbered(-1)]), 0)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(NoMemory):
            read_parts(tmp_path, PARTITION, OFFSET + 1, KEEP)


def test_the_files_of_another_partition_serve_nobody(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(NoMemory, match="holds no ids of partition 2"):
        read_parts(tmp_path, 2, OFFSET, KEEP)


def test_one_of_another_version_serves_nobody(tmp_path: Path) -> None:
    begun(tmp_path)
    path = part_path(tmp_path, OFFSET)
    head = bytearray(path.read_bytes()[:28])
    head[3] += 1
    path.write_bytes(head + struct.pack("<I", zlib.crc32(head)))
    with pytest.raises(NoMemory, match="in version"):
        read_parts(tmp_path, PARTITION, OFFSET, KEEP)


def test_a_worker_that_cannot_write_routes_on_and_leaves_no_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = begun(tmp_path)
    remove_other_parts(tmp_path / "none")
    add(log, 0, 1)
    assert len(caplog.records) == 1
    assert not parts_of(tmp_path)


def test_files_that_end_before_what_passed_are_removed(tmp_path: Path) -> None:
    log = begun(tmp_path)
    add(log, 0, 1)
    part_path(tmp_path, OFFSET + 2).mkdir()  # where the next part would begin
    add(log, 2, 3, seconds=GENERATION_SECONDS)
    assert parts_of(tmp_path) == [2]
    with pytest.raises(OSError, match="1099511627778"):
        read_all_parts(tmp_path, PARTITION, OFFSET + 2, KEEP)


def test_all_parts_reach_behind_the_last_commit(tmp_path: Path) -> None:
    add(begun(tmp_path), 0, 1, 2, seconds=GENERATION_SECONDS)
    parts = read_all_parts(tmp_path, PARTITION, OFFSET + 1, KEEP)
    assert parts[-1].end.stands_before == OFFSET + 3
    with pytest.raises(NoMemory, match="end before offset"):
        read_all_parts(tmp_path, PARTITION, OFFSET + 4, KEEP)

"""The count files: exact whoever dies when, readable by anyone at any time."""

from __future__ import annotations

import os
import signal
import struct
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming_jobs.router_job import counts
from streaming_jobs.router_job.counts import MAX_SERIES, UNCOUNTED, CountFile, path_of, read_all, read_counts

ACCEPTED = ("frames", "decode", "accepted", "", "emm")
REJECTED = ("frames", "decode", "rejected", "truncated", "emm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return path_of(tmp_path, 3)


def counted(path: Path) -> dict[tuple[str, ...], int]:
    read = read_counts(path)
    assert read is not None
    return dict(read.series)


def test_what_is_counted_can_be_read_at_once(path: Path) -> None:
    file = CountFile(path)
    assert file.add(0, {ACCEPTED: 3})
    assert counted(path) == {ACCEPTED: 3}
    assert file.add(1, {ACCEPTED: 2, REJECTED: 1})
    assert counted(path) == {ACCEPTED: 5, REJECTED: 1}


def test_a_repeat_is_not_counted_again(path: Path) -> None:
    file = CountFile(path)
    for offset in (7, 8, 7, 8, 9):
        file.add(offset, {ACCEPTED: 1})
    assert counted(path) == {ACCEPTED: 3}


def test_the_place_that_is_read_goes_back_with_the_reader_though_the_counts_stay(path: Path) -> None:
    file = CountFile(path)
    file.add(41, {ACCEPTED: 1})
    file.add(12, {ACCEPTED: 1})
    read = read_counts(path)
    assert read is not None
    assert (read.routed, read.series) == (13, {ACCEPTED: 1})


def test_another_process_goes_on_where_the_first_stopped(path: Path) -> None:
    first = CountFile(path)
    first.add(0, {ACCEPTED: 1})
    second = CountFile(path)
    second.add(1, {REJECTED: 1})
    first.add(2, {REJECTED: 1, ACCEPTED: 1})
    assert not second.add(2, {REJECTED: 1})
    assert counted(path) == {ACCEPTED: 2, REJECTED: 2}


def test_a_router_that_starts_again_finds_its_counts(path: Path) -> None:
    file = CountFile(path)
    file.add(0, {ACCEPTED: 1})
    file.close()
    assert not CountFile(path).add(0, {ACCEPTED: 1})
    assert counted(path) == {ACCEPTED: 1}


def test_a_record_without_counts_moves_the_place_on(path: Path) -> None:
    file = CountFile(path)
    file.add(5, {})
    read = read_counts(path)
    assert read is not None
    assert (read.routed, read.series) == (6, {})


def test_there_is_nothing_to_read_before_anything_was_counted(path: Path) -> None:
    assert read_counts(path) is None


@pytest.mark.parametrize("content", [b"", b"short", b"MGC0" + bytes(300_000)])
def test_a_file_of_another_layout_is_begun_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert read_counts(path) is None
    CountFile(path).add(0, {ACCEPTED: 1})
    assert counted(path) == {ACCEPTED: 1}


def test_series_up_to_the_limit_are_kept_apart_and_further_ones_counted_together(path: Path) -> None:
    file = CountFile(path)
    kept: dict[tuple[str, ...], int] = {("frames", str(number)): 1 for number in range(MAX_SERIES - 1)}
    file.add(0, kept)
    assert counted(path) == kept
    file.add(1, {("one", "more"): 2, ("and", "another"): 3})
    assert counted(path) == kept | {UNCOUNTED: 5}


def test_names_too_long_for_their_place_are_counted_together(path: Path) -> None:
    file = CountFile(path)
    file.add(0, {("long", "x" * counts.NAMES_BYTES): 1})
    assert counted(path) == {UNCOUNTED: 1}


def test_a_name_whose_turn_never_came_is_forgotten(path: Path) -> None:
    """Leaves the file as a worker does that is killed after it wrote the name, before it took the turn."""
    file = CountFile(path)
    file.add(0, {ACCEPTED: 1})
    before = path.read_bytes()
    file.add(1, {REJECTED: 9})
    after = bytearray(path.read_bytes())
    after[8:16] = before[8:16]
    with path.open("r+b") as torn:
        torn.write(after)
    assert counted(path) == {ACCEPTED: 1}
    assert CountFile(path).add(1, {("other",): 4})
    assert counted(path) == {ACCEPTED: 1, ("other",): 4}


def _count_for_ever(path: Path) -> None:
    file = CountFile(path)
    offset = 0
    while True:
        file.add(offset, {ACCEPTED: 2, ("frames", str(offset % 50)): 1})
        offset += 1


def test_a_worker_killed_at_any_moment_leaves_whole_records(path: Path) -> None:
    for _ in range(5):
        worker = get_context("spawn").Process(target=_count_for_ever, args=(path,))
        worker.start()
        while (read := read_counts(path)) is None or read.routed < 500:
            assert worker.is_alive()
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        series = counted(path)
        records = series.pop(ACCEPTED) // 2
        assert sum(series.values()) == records
        file = CountFile(path)
        assert not file.add(records - 1, {ACCEPTED: 2})
        assert file.add(records, {ACCEPTED: 2, ("frames", "0"): 1})
        file.close()
        path.unlink()


def test_a_reader_never_sees_half_a_record_while_a_worker_writes(path: Path) -> None:
    worker = get_context("spawn").Process(target=_count_for_ever, args=(path,))
    worker.start()
    try:
        while read_counts(path) is None:
            assert worker.is_alive()
        whole = 0
        while whole < 200:
            read = read_counts(path)
            if read is None:  # no turn stood still for long enough: it says nothing rather than half
                continue
            whole += 1
            series = dict(read.series)
            assert series.pop(ACCEPTED, 0) == 2 * sum(series.values())
    finally:
        worker.kill()
        worker.join()


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), max_size=3)),
        max_size=40,
    )
)
def test_the_counts_are_those_of_the_records_that_moved_on(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, dict[str, int]]]
) -> None:
    path = path_of(tmp_path_factory.mktemp("counts"), 0)
    expected: dict[tuple[str, ...], int] = {}
    last = -1
    writers = [CountFile(path), CountFile(path)]
    for number, (offset, found) in enumerate(records):
        writers[number % 2].add(offset, {(name,): count for name, count in found.items()})
        if offset > last:
            last = offset
            for name, count in found.items():
                expected[name,] = expected.get((name,), 0) + count
    read = read_counts(path)
    assert dict(read.series if read else {}) == expected


def test_the_files_of_several_partitions_are_summed(tmp_path: Path) -> None:
    CountFile(path_of(tmp_path, 0)).add(4, {ACCEPTED: 1})
    CountFile(path_of(tmp_path, 1)).add(9, {ACCEPTED: 2, REJECTED: 1})
    routed, series = read_all(tmp_path, (0, 1, 2))
    assert routed == {0: 5, 1: 10}
    assert series == {ACCEPTED: 3, REJECTED: 1}


def test_a_file_that_promises_names_it_does_not_have_is_not_trusted(path: Path) -> None:
    CountFile(path).add(0, {ACCEPTED: 1})
    with path.open("r+b") as torn:
        torn.seek(0)
        torn.write(struct.pack("=4sI", b"MGC1", MAX_SERIES + 1))
    assert read_counts(path) is None

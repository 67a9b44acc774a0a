"""The ids that a lane knows, against a plain dictionary that does the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming_jobs.routing import known_ids
from streaming_jobs.routing.id_table import GENERATION_SECONDS
from streaming_jobs.routing.known_ids import LATENESS_SECONDS, KnownIds, message_key

HORIZON = 420
BEGIN = 1_000_000_000
NODES = [bytes([number]) * 16 for number in range(3)]


class PlainIds:
    """The rule itself: a frame is a repeat if its key passed last within the horizon."""

    def __init__(self) -> None:
        self._passed: dict[bytes, int] = {}

    def admit(self, key: bytes, second: int) -> bool:
        last = self._passed.get(key)
        if last is not None and abs(second - last) <= HORIZON:
            return False
        self._passed[key] = second
        return True


def packet_key(number: int) -> bytes:
    return NODES[number % len(NODES)] + number.to_bytes(4, "big")


def any_key(number: int) -> bytes:
    return packet_key(number) if number % 2 else message_key(f"yamp\0node\0{number}")


records = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=8),
        st.booleans(),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(records)
def test_it_decides_as_a_plain_dictionary_does_wherever_it_is_rebuilt(
    given_records: list[tuple[int, list[tuple[int, int]], bool]],
) -> None:
    known, plain, now, rows = KnownIds(HORIZON), PlainIds(), BEGIN, []
    for pause, frames, is_rebuilt in given_records:
        now += pause
        log_seconds = known.advance(now, now + 5)
        keys, seconds = [any_key(number) for number, _ in frames], [now - ago for _, ago in frames]
        expected = [plain.admit(key, second) for key, second in zip(keys, seconds, strict=True)]
        assert known.admit(keys, seconds) == expected
        rows.append((log_seconds, known.added_row()))
        if is_rebuilt:
            kept = [row for row in rows if row[0] >= now - HORIZON - LATENESS_SECONDS]
            known = KnownIds(HORIZON)
            known.restore(kept)


@pytest.mark.parametrize("count", [1, 100, 20_000])
def test_many_ids_are_all_known_and_nothing_else_is(count: int) -> None:
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    keys = [any_key(number) for number in random.Random(count).sample(range(1 << 31), 2 * count)]
    assert known.admit(keys[:count], [BEGIN] * count) == [True] * count
    assert len(known) == count
    assert known.admit(keys, [BEGIN + 1] * len(keys)) == [False] * count + [True] * count
    assert known.memory_bytes <= 31 * 2 * count + 1_300_000


def test_a_repeat_inside_one_record_is_one() -> None:
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    keys = [packet_key(1), packet_key(2), packet_key(1), packet_key(1)]
    assert known.admit(keys, [BEGIN, BEGIN, BEGIN, BEGIN + HORIZON + 1]) == [True, True, False, True]


@pytest.mark.parametrize(("apart", "is_new"), [(HORIZON, False), (HORIZON + 1, True), (-HORIZON, False)])
def test_the_horizon_is_exact_whatever_generation_the_first_stands_in(apart: int, is_new: bool) -> None:
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    known.admit([packet_key(1)], [BEGIN])
    known.advance(BEGIN + apart, BEGIN + apart)
    assert known.admit([packet_key(1)], [BEGIN + apart]) == [is_new]


def test_an_id_that_passes_again_is_known_by_its_later_time() -> None:
    known = KnownIds(HORIZON)
    for second, is_new in ((0, True), (HORIZON + 1, True), (2 * HORIZON, False), (2 * HORIZON + 2, True)):
        known.advance(BEGIN + second, BEGIN + second)
        assert known.admit([packet_key(1)], [BEGIN + second]) == [is_new]


def test_a_key_that_was_marked_is_known() -> None:
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    known.mark(packet_key(1), BEGIN)
    assert known.admit([packet_key(1)], [BEGIN]) == [False]
    assert len(known.added_row()) == 18 + 16 + 4 + 1 + 1


def test_what_is_taken_back_is_new_again_and_no_part_of_the_row() -> None:
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    known.admit([packet_key(1)], [BEGIN])
    known.advance(BEGIN, BEGIN)
    known.admit([packet_key(1), packet_key(2)], [BEGIN, BEGIN])
    known.take_back()
    assert known.added_row() == b""
    assert known.admit([packet_key(1), packet_key(2)], [BEGIN, BEGIN]) == [False, True]


def test_log_time_never_goes_back_and_never_ahead_of_the_clock() -> None:
    known = KnownIds(HORIZON)
    assert known.advance(BEGIN, BEGIN + 10) == BEGIN
    assert known.advance(BEGIN + 3_600, BEGIN + 10) == BEGIN + 10
    assert known.advance(BEGIN - 3_600, BEGIN + 11) == BEGIN + 10


def test_what_is_past_its_time_leaves_and_memory_is_bounded() -> None:
    known = KnownIds(HORIZON)
    for second in range(0, 20 * GENERATION_SECONDS, 60):
        known.advance(BEGIN + second, BEGIN + second)
        known.admit([packet_key(second * 100 + at) for at in range(50)], [BEGIN + second] * 50)
    kept_at_most = HORIZON + LATENESS_SECONDS + 3 * GENERATION_SECONDS
    assert len(known) <= kept_at_most // 60 * 50


@pytest.mark.parametrize("has_size", [False, True])
def test_tables_are_small_whether_ids_come_one_by_one_or_are_read_back(has_size: bool) -> None:
    """The least table has 1.2 MB, and the next ones as much room as there are ids."""
    known, rows = KnownIds(HORIZON), []
    for second in range(300):
        known.advance(BEGIN + second, BEGIN + second)
        known.admit([packet_key(second * 1000 + at) for at in range(1000)], [BEGIN + second] * 1000)
        rows.append((BEGIN + second, known.added_row()))
    again = KnownIds(HORIZON)
    again.restore(rows, sum(len(row) for _, row in rows) if has_size else 0)
    assert len(known) == len(again) == 300_000
    assert known.memory_bytes <= 2 * 26 * 300_000 + 1_300_000
    assert again.memory_bytes <= 2 * 26 * 300_000 + 1_300_000


def test_of_an_id_that_stands_twice_in_rows_the_later_time_counts() -> None:
    """It passed again after the horizon, at a rate so low that both are read back together."""
    rows = []
    known = KnownIds(HORIZON)
    for second in (GENERATION_SECONDS, 2 * GENERATION_SECONDS - 1):
        known.advance(BEGIN + second, BEGIN + second)
        known.mark(packet_key(7), BEGIN + second)
        rows.append((BEGIN + GENERATION_SECONDS, known.added_row()))
    again = KnownIds(HORIZON)
    again.restore(rows)
    late = BEGIN + 2 * GENERATION_SECONDS - 1 + HORIZON
    assert again.admit([packet_key(7)], [late]) == [False]


def test_nodes_beyond_the_numbered_ones_are_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "MAX_NODES", 1)
    known = KnownIds(HORIZON)
    known.advance(BEGIN, BEGIN)
    keys = [packet_key(number) for number in range(9)]
    assert known.admit(keys, [BEGIN] * 9) == [True] * 9
    assert known.admit(keys, [BEGIN] * 9) == [False] * 9
    again = KnownIds(HORIZON)
    again.restore([(BEGIN, known.added_row())])
    assert again.admit(keys, [BEGIN] * 9) == [False] * 9

"""A table of ids that is filled at once knows what one knows into which ids were put."""

from __future__ import annotations

import numpy as np
import pytest

from streaming_jobs.routing.id_table import UPPER, Idents, IdTable, filter_masks, mixed_bits, slots_of

SLOTS = 65_536
BEGIN = 1_700_000_000


def idents(count: int, least_home: int = 0) -> Idents:
    """Returns ids whose homes are among the last slots of the smallest table."""
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    homes = (mixed_bits(numbers) >> UPPER) * np.uint64(SLOTS) >> UPPER
    return numbers[homes >= least_home]


def seconds_of(table: IdTable, asked: Idents) -> list[int]:
    """Returns when each id passed, as it is found behind the filter."""
    mixed = mixed_bits(asked)
    seconds = [0] * len(asked)
    places = table.may_have(mixed >> UPPER, filter_masks(mixed))
    found = table.find(asked[places], np.zeros(len(places), np.uint32), mixed[places] >> UPPER)
    for place, second in zip(places.tolist(), found, strict=True):
        seconds[place] = second
    return seconds


@pytest.mark.parametrize(
    "chosen",
    [
        idents(0),
        idents(1),
        idents(40_000),
        idents(400_000, SLOTS - 40),
        np.concatenate([idents(30_000)] * 2),
        np.concatenate([idents(400_000, SLOTS - 39)] * 2),
    ],
    ids=["none", "one", "many", "behind the last slot", "each twice", "one in the last slot and in the first"],
)
def test_what_is_filled_at_once_is_found_like_what_was_put(chosen: Idents) -> None:
    passed = np.arange(len(chosen), dtype=np.uint32) + np.uint32(BEGIN)
    checks = np.zeros(len(chosen), np.uint32)
    filled, other = IdTable(BEGIN, 0), IdTable(BEGIN, 0)
    filled.fill(slots_of(chosen, checks, passed), BEGIN)
    other.put(slots_of(chosen, checks, passed), BEGIN)
    last = dict(zip(chosen.tolist(), passed.tolist(), strict=True))
    assert seconds_of(filled, chosen) == seconds_of(other, chosen) == [last[ident] for ident in chosen.tolist()]
    strangers = idents(450_000)[-20_000:]
    assert seconds_of(filled, strangers) == [last.get(ident, 0) for ident in strangers.tolist()]
    assert filled.used == other.used == len(chosen)


def test_a_table_that_was_filled_takes_more() -> None:
    chosen = idents(30_000)
    checks, seconds = np.zeros(len(chosen), np.uint32), np.full(len(chosen), BEGIN, np.uint32)
    table = IdTable(BEGIN, 0)
    table.fill(slots_of(chosen, checks, seconds)[:20_000], BEGIN)
    table.put(slots_of(chosen, checks, seconds + np.uint32(7))[10_000:], BEGIN + 7)
    assert seconds_of(table, chosen) == [BEGIN] * 10_000 + [BEGIN + 7] * 20_000
    assert table.used == 30_000

"""Lost, doubled, out of order, late: each told apart, for each subscriber, from nothing but (index, time)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.accounting import account, latency, timeline
from gateway.bench.arrivals import Noted
from tests.unit.bench.notes import EVERY_MS, noted, on_time, schedule


def counts(*of: Noted, total: int = 6, first_measured: int = 0, sessions: int = 1) -> tuple[int, int, int]:
    found = account(of, schedule(total), first_measured, sessions)
    return found.lost, found.duplicates, found.disordered


class TestCounting:
    @pytest.mark.parametrize(
        ("arrivals", "expected"),
        [
            pytest.param(on_time(range(6)), (0, 0, 0), id="all in order"),
            pytest.param(on_time([0, 1, 3, 5]), (2, 0, 0), id="what never came is lost"),
            pytest.param(noted(), (6, 0, 0), id="nothing at all is all lost"),
            pytest.param(on_time([0, 1, 1, 2, 2, 2, 3, 4]), (1, 3, 0), id="a repeat replaces nothing"),
            pytest.param(
                noted((0, 0), (1, 1), (2, 2), (0, 3), (3, 4), (4, 5), (5, 6)), (0, 1, 0), id="late is no disorder"
            ),
            pytest.param(noted((0, 0), (2, 1), (1, 2), (3, 3), (4, 4), (5, 5)), (0, 0, 1), id="one was overtaken"),
            pytest.param(noted((5, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)), (0, 0, 5), id="one ran ahead of all"),
        ],
    )
    def test_lost_doubled_and_disordered_are_told_apart(self, arrivals: Noted, expected: tuple[int, int, int]) -> None:
        assert counts(arrivals) == expected

    def test_there_is_order_within_sessions_alone(self) -> None:
        """Frames 0, 2, 4 are of one session, 1, 3, 5 of the other."""
        assert counts(noted((1, 0), (3, 1), (5, 2), (0, 3), (2, 4), (4, 5)), sessions=2) == (0, 0, 0)
        assert counts(noted((2, 0), (0, 1), (1, 2), (5, 3), (3, 4), (4, 5)), sessions=2) == (0, 0, 2)

    def test_each_subscriber_is_owed_everything(self) -> None:
        found = account([on_time(range(6)), on_time([0, 1, 1])], schedule(6), 0, 1)
        assert (found.expected, found.received, found.lost, found.duplicates) == (12, 8, 4, 1)

    def test_no_subscriber_expects_nothing(self) -> None:
        found = account([], schedule(6), 0, 1)
        assert (found.expected, found.lost, len(found.latencies_ms)) == (0, 0, 0)

    @given(st.lists(st.integers(0, 19), max_size=60), st.integers(1, 5))
    @settings(max_examples=200, deadline=None)
    def test_it_agrees_with_counting_one_by_one(self, indices: list[int], sessions: int) -> None:
        highest: dict[int, int] = {}
        seen: set[int] = set()
        doubled = disordered = 0
        for index in indices:
            if index in seen:
                doubled += 1
                continue
            seen.add(index)
            disordered += index < highest.get(index % sessions, -1)
            highest[index % sessions] = max(index, highest.get(index % sessions, -1))
        arrivals = noted(*((index, ms) for ms, index in enumerate(indices)))
        assert counts(arrivals, total=20, sessions=sessions) == (20 - len(seen), doubled, disordered)


class TestWarmUp:
    def test_its_losses_are_told_apart(self) -> None:
        found = account([on_time([1, 3, 4])], schedule(6), 3, 1)
        assert (found.expected, found.lost, found.warm_up_lost) == (3, 1, 2)

    def test_its_latencies_are_left_out(self) -> None:
        found = account([noted((0, 900), (1, 105))], schedule(2), 1, 1)
        assert found.latencies_ms.tolist() == [5.0]

    def test_its_repeats_and_its_disorder_count(self) -> None:
        assert counts(noted((1, 0), (0, 1), (0, 2), (2, 3)), total=3, first_measured=2) == (0, 1, 1)


class TestLatency:
    def test_it_counts_from_when_a_frame_was_due(self) -> None:
        found = account([noted((0, 3), (1, 104), (2, 201))], schedule(3), 0, 1)
        assert found.latencies_ms.tolist() == [3.0, 4.0, 1.0]

    def test_a_stall_is_paid_by_every_frame_of_it(self) -> None:
        """Nothing comes for half a second, then all at once: a closed loop would have noticed one slow frame."""
        stalled = noted(*((index, 500) for index in range(5)))
        found = account([stalled], schedule(5), 0, 1)
        assert sorted(found.latencies_ms.tolist()) == [100.0, 200.0, 300.0, 400.0, 500.0]

    def test_of_a_repeat_the_first_arrival_counts(self) -> None:
        found = account([noted((0, 2), (0, 99))], schedule(1), 0, 1)
        assert found.latencies_ms.tolist() == [2.0]

    def test_all_subscribers_are_in_one_distribution(self) -> None:
        found = account([on_time(range(5), 1.0), on_time(range(5), 9.0)], schedule(5), 0, 1)
        assert (latency(found)["p50"], latency(found)["max"]) == (1.0, 9.0)

    def test_where_nothing_came_there_is_none(self) -> None:
        assert latency(account([noted()], schedule(3), 0, 1))["p50"] is None

    def test_first_and_last_are_of_measured_frames(self) -> None:
        found = account([noted((0, 1), (1, 150), (2, 260))], schedule(3), 1, 1)
        assert (found.first, found.last) == (150_000_000, 260_000_000)


class TestTimeline:
    def test_a_second_holds_what_was_due_in_it_whenever_it_came(self) -> None:
        late = noted(*((index, index * EVERY_MS + (5_000 if index < 10 else 2)) for index in range(20)))
        rows = timeline(account([late], schedule(20), 0, 1))
        assert [(row["second"], row["received"], row["p50"], row["max"]) for row in rows] == [
            (0, 10, 5_000.0, 5_000.0),
            (1, 10, 2.0, 2.0),
        ]

    def test_a_second_of_which_nothing_came_is_missing(self) -> None:
        rows = timeline(account([on_time([*range(10), *range(20, 30)])], schedule(30), 0, 1))
        assert [row["second"] for row in rows] == [0, 2]

    def test_without_arrivals_it_is_empty(self) -> None:
        assert timeline(account([noted()], schedule(3), 0, 1)) == []

    @pytest.mark.parametrize("seed", [1, 2])
    def test_the_order_of_arrival_does_not_matter(self, seed: int) -> None:
        arrivals = [(index, index * EVERY_MS + index % 7) for index in range(40)]
        shuffled = random.Random(seed).sample(arrivals, len(arrivals))
        one, other = (timeline(account([noted(*of)], schedule(40), 0, 1)) for of in (arrivals, shuffled))
        assert one == other

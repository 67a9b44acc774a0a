"""A lane that does nothing although there is something to do."""

from __future__ import annotations

from streaming_jobs.router_job.stall import STALLED_SECONDS, StallDetector

LATER = STALLED_SECONDS + 1


def test_records_that_nobody_takes_are_a_stall_after_a_while() -> None:
    lane = StallDetector()
    assert not lane.observe(1000, end=9, processed=5)
    assert not lane.observe(1000 + STALLED_SECONDS, end=12, processed=5)
    assert lane.observe(1000 + LATER, end=12, processed=5)


def test_an_idle_lane_is_no_stall_and_has_its_time_when_something_comes() -> None:
    lane = StallDetector()
    for now in (0, LATER, 5 * LATER):
        assert not lane.observe(now, end=5, processed=5)
    assert not lane.observe(5 * LATER + STALLED_SECONDS, end=6, processed=5)
    assert lane.observe(6 * LATER, end=6, processed=5)


def test_a_lane_that_is_slow_is_no_stall() -> None:
    lane = StallDetector()
    assert not any(lane.observe(number * STALLED_SECONDS, end=1_000, processed=number) for number in range(20))


def test_a_lane_that_went_back_to_its_last_commit_has_its_time_again() -> None:
    lane = StallDetector()
    lane.observe(0, end=9, processed=7)
    assert not lane.observe(LATER, end=9, processed=2)
    assert not lane.observe(LATER + STALLED_SECONDS, end=9, processed=2)
    assert lane.observe(2 * LATER + 1, end=9, processed=2)

"""When a lane changes its trigger."""

from __future__ import annotations

from gateway.telemetry.lag import Lag
from streaming_jobs.router.pace import (
    BEHIND_SECONDS,
    CALM_SECONDS,
    FORGET_SECONDS,
    HUNG_SECONDS,
    PATIENCE_SECONDS,
    STUCK_SECONDS,
    WORKED_OFF_SECONDS,
    Mode,
    Pace,
    Standstill,
)


def test_a_lane_that_keeps_up_stays_in_real_time() -> None:
    pace = Pace(Mode.REALTIME)
    assert {pace.choose(float(now), 0.1, 20_000) for now in range(100)} == {Mode.REALTIME}


def test_a_lane_that_is_too_far_behind_goes_over_at_once() -> None:
    pace = Pace(Mode.REALTIME)
    assert pace.choose(0, BEHIND_SECONDS, 1_000) is Mode.REALTIME
    assert pace.choose(1, BEHIND_SECONDS + 0.1, 1_000) is Mode.MICROBATCH


def test_it_comes_back_after_it_was_calm_for_long_enough() -> None:
    pace = Pace(Mode.REALTIME)
    pace.choose(0, 60, 50_000)
    chosen = [pace.choose(1.0 + now, 0.2, 1_000) for now in range(int(CALM_SECONDS) + 1)]
    assert chosen == [Mode.MICROBATCH] * int(CALM_SECONDS) + [Mode.REALTIME]


def test_one_that_only_had_a_backlog_at_its_start_comes_back_as_soon_as_it_is_worked_off() -> None:
    pace = Pace(Mode.MICROBATCH)
    assert pace.choose(0, 40, 5_000) is Mode.MICROBATCH
    assert pace.choose(1, 0.3, 5_000) is Mode.MICROBATCH
    assert pace.choose(1 + WORKED_OFF_SECONDS, 0.3, 1_000) is Mode.REALTIME


def test_one_that_is_behind_and_catching_up_is_left_alone_unless_it_takes_too_long() -> None:
    pace = Pace(Mode.REALTIME)
    assert pace.choose(0, 40, 5_000, PATIENCE_SECONDS) is Mode.REALTIME
    assert pace.choose(1, 40, 5_000, PATIENCE_SECONDS + 1) is Mode.MICROBATCH


def test_one_that_stands_still_is_no_slower_for_it_and_only_begins_anew_after_long() -> None:
    pace = Pace(Mode.REALTIME)
    assert pace.choose(0, STUCK_SECONDS, 0) is Mode.REALTIME
    assert pace.choose(1, STUCK_SECONDS + 1, 0) is Mode.MICROBATCH
    pace.choose(2, 0.3, 1_000)
    assert pace.choose(2 + WORKED_OFF_SECONDS, 0.3, 1_000) is Mode.REALTIME


def test_a_hiccup_while_it_waits_begins_the_wait_again() -> None:
    pace = Pace(Mode.REALTIME)
    pace.choose(0, 60, 1_000)
    pace.choose(1, 0, 10)
    pace.choose(CALM_SECONDS, 30, 10)
    assert pace.choose(CALM_SECONDS + 2, 0, 10) is Mode.MICROBATCH


def test_it_does_not_come_back_to_a_rate_that_was_too_much() -> None:
    pace = Pace(Mode.REALTIME)
    pace.choose(0, 60, 40_000)
    assert {pace.choose(float(now), 0.2, 39_000) for now in range(1, 60)} == {Mode.MICROBATCH}
    late = FORGET_SECONDS + 1
    pace.choose(late, 0.2, 39_000)
    assert pace.choose(late + CALM_SECONDS, 0.2, 39_000) is Mode.REALTIME


def test_a_standstill_is_nothing_done_for_long_while_there_is_something_to_do() -> None:
    stands = Standstill()
    assert not stands.observe(0, 10, 5)
    assert not stands.observe(HUNG_SECONDS, 90, 5)
    assert stands.observe(HUNG_SECONDS + 1, 95, 5)
    assert not stands.observe(HUNG_SECONDS + 2, 95, 6)  # one record is enough


def test_a_lane_with_nothing_to_do_does_not_stand_still() -> None:
    stands = Standstill()
    assert {stands.observe(now * HUNG_SECONDS, 10, 10) for now in range(5)} == {False}


def test_lag_is_the_age_of_the_oldest_unread_end() -> None:
    lag = Lag()
    assert lag.observe(0, 100, 100) == 0
    assert lag.observe(1, 200, 100) == 0
    assert lag.observe(5, 300, 150) == 4
    assert lag.observe(6, 300, 200) == 1
    assert lag.observe(7, 300, 300) == 0

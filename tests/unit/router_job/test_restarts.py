"""Tests when a query that has failed is started again in place."""

from __future__ import annotations

from streaming_jobs.router_job.restarts import MOST, PAUSE_SECONDS, WITHIN_SECONDS, Restarts


def test_the_first_start_again_is_at_once_and_the_next_ones_wait() -> None:
    restarts = Restarts()
    assert [restarts.failed(float(now)) for now in range(3)] == [0.0, PAUSE_SECONDS, PAUSE_SECONDS]


def test_what_fails_again_and_again_is_given_up() -> None:
    restarts = Restarts()
    waits = [restarts.failed(float(now)) for now in range(MOST + 1)]
    assert None not in waits[:MOST]
    assert waits[MOST] is None


def test_failures_that_are_far_apart_are_each_the_first() -> None:
    restarts = Restarts()
    assert {restarts.failed(number * (WITHIN_SECONDS + 1)) for number in range(3 * MOST)} == {0.0}

"""Tests when a connection is read: the gate, the bucket, and how much at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config import Limits
from gateway.edge.carriers.read_control import (
    FIRST_READ_BYTES,
    LEAST_READ_BYTES,
    READ_BYTES,
    SLICE_SECONDS,
    STREAM_FRAMES_PER_SECOND,
    PauseReason,
    ReadGate,
    ReadSize,
    Throttle,
    TokenBucket,
)


class Recorded:
    """A transport's reading."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.gate = ReadGate(lambda: self.did.append("pause"), lambda: self.did.append("resume"))


def test_reading_stops_with_the_first_hold_and_goes_on_after_the_last() -> None:
    reading = Recorded()
    reading.gate.hold(PauseReason.RATE)
    reading.gate.hold(PauseReason.LOG_FULL)
    reading.gate.release(PauseReason.RATE)
    assert reading.did == ["pause"]
    reading.gate.release(PauseReason.LOG_FULL)
    assert reading.did == ["pause", "resume"]


def test_a_release_of_what_holds_nothing_does_nothing() -> None:
    reading = Recorded()
    reading.gate.release(PauseReason.RATE)
    reading.gate.hold(PauseReason.LOG_FULL)
    reading.gate.hold(PauseReason.LOG_FULL)
    reading.gate.release(PauseReason.LOG_FULL)
    reading.gate.release(PauseReason.LOG_FULL)
    assert reading.did == ["pause", "resume"]


def test_a_peer_that_does_not_read_is_blamed_for_its_silence_all_others_are_not() -> None:
    gate = Recorded().gate
    gate.hold(PauseReason.UNREAD)
    assert not gate.is_ours
    gate.hold(PauseReason.RATE)
    assert gate.is_ours
    gate.release(PauseReason.RATE)
    assert not gate.is_ours


def test_a_bucket_lets_a_seconds_worth_through_at_once_and_then_asks_for_the_time_that_is_owed() -> None:
    bucket = TokenBucket(10.0, now=100.0)
    assert bucket.take(10, 100.0) == 0
    assert bucket.take(5, 100.0) == 0.5
    assert bucket.take(0, 100.5) == 0
    assert bucket.take(1, 100.5) == 0.1


def test_a_bucket_saves_no_more_than_a_second() -> None:
    bucket = TokenBucket(10.0, now=0.0)
    assert bucket.take(11, 1000.0) == 0.1


def test_a_datagram_comes_in_only_if_there_is_a_whole_token() -> None:
    bucket = TokenBucket(2.0, now=0.0)
    assert [bucket.has_one(0.0) for _ in range(3)] == [True, True, False]
    assert [bucket.has_one(0.49), bucket.has_one(0.5), bucket.has_one(0.5)] == [False, True, False]


def test_less_than_one_frame_a_second_still_lets_one_through() -> None:
    bucket = TokenBucket(0.1, now=0.0)
    assert [bucket.has_one(at) for at in (0.0, 9.9, 10.0)] == [True, False, True]


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 1000), st.lists(st.tuples(st.floats(0, 2), st.integers(0, 50)), max_size=50))
def test_no_more_passes_a_bucket_in_any_time_than_its_rate_and_a_seconds_burst(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    bucket, now, passed = TokenBucket(rate, 0.0), 0.0, 0
    for pause, wanted in steps:
        now += pause
        passed += sum(bucket.has_one(now) for _ in range(wanted))
        assert passed <= now * rate + max(rate, 1.0) + 1e-6


LIMITS = Limits(
    frames_per_second_per_session=100,
    bytes_per_second_per_session=1_000,
    cpu_share_per_session=0.5,
    control_frames_per_second_per_session=4,
    subscriptions_per_session=8,
)
NOTHING: dict[str, Any] = {"frames": 0, "size": 0, "cpu_seconds": 0.0, "controls": 0}


@pytest.mark.parametrize(
    ("at_the_limit", "beyond", "seconds"),
    [
        ({"frames": 100}, {"frames": 1}, 0.01),
        ({"size": 1_000}, {"size": 1}, 0.001),
        ({"cpu_seconds": 0.5}, {"cpu_seconds": 0.125}, 0.25),
        ({"controls": 8}, {"controls": 1}, 0.25),
    ],
    ids=["frames", "bytes", "time of the thread", "control frames"],
)
def test_a_stream_is_read_until_it_has_cost_what_it_may_and_then_after_what_is_beyond(
    at_the_limit: dict[str, Any], beyond: dict[str, Any], seconds: float
) -> None:
    throttle = Throttle(LIMITS, now=10.0)
    assert throttle.take(**NOTHING | at_the_limit, now=10.0) == pytest.approx(0.0)
    assert throttle.take(**NOTHING | beyond, now=10.0) == pytest.approx(seconds)
    assert throttle.take(**NOTHING, now=10.0 + seconds / 2) == pytest.approx(seconds / 2)
    assert throttle.take(**NOTHING, now=10.0 + seconds) == pytest.approx(0.0)
    assert throttle.take(**NOTHING | beyond, now=1_000.0) == 0.0


def test_a_stream_without_a_rate_of_its_own_has_that_of_streams() -> None:
    throttle = Throttle(Limits(), now=0.0)
    burst = int(STREAM_FRAMES_PER_SECOND)
    assert throttle.take(burst, 0, 0.0, 0, now=0.0) == pytest.approx(0.0)
    assert throttle.take(1, 0, 0.0, 0, now=0.0) == pytest.approx(1 / STREAM_FRAMES_PER_SECOND)


def test_a_turn_that_is_too_far_away_is_not_taken() -> None:
    bucket = TokenBucket(2.0, now=0.0)
    assert [bucket.take_within(1.0, 0.0) for _ in range(6)] == [0.0, 0.0, 0.5, 1.0, None, None]
    assert bucket.take_within(1.0, 0.5) == 1.0


def test_reads_grow_while_they_are_filled_and_cheap() -> None:
    size = ReadSize()
    while size.bytes < READ_BYTES:
        before = size.bytes
        size.took(before, SLICE_SECONDS)
        assert size.bytes == 2 * before
    size.took(READ_BYTES, 0.0)
    assert size.bytes == READ_BYTES


def test_a_read_that_was_not_filled_is_no_reason_for_a_larger_one() -> None:
    size = ReadSize()
    size.took(FIRST_READ_BYTES - 1, 0.0)
    assert size.bytes == FIRST_READ_BYTES


def test_a_read_that_cost_too_much_is_followed_by_one_that_fits_its_slice() -> None:
    size = ReadSize()
    size.took(8_000, 4 * SLICE_SECONDS)
    assert size.bytes == 2_000
    size.took(2_000, 100.0)
    assert size.bytes == LEAST_READ_BYTES

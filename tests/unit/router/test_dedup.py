"""Dedup by buckets: what Spark is given, judged by what `dropDuplicates` with a watermark does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streaming_jobs.routing.dedup import LATEST_SECONDS, Buckets

WINDOW = 300


class SparkDedup:
    """The semantics relied on: the first of (key, bucket) passes; a bucket's keys go when the watermark passes it; a
    row behind the watermark is dropped and counted."""

    def __init__(self, buckets: Buckets) -> None:
        self._delay = buckets.delay_seconds
        self._seen: set[tuple[str, int]] = set()
        self._greatest = self._watermark = 0
        self.late = 0

    def offer(self, key: str, bucket: int) -> bool:
        self._greatest = max(self._greatest, bucket)
        if bucket < self._watermark:
            self.late += 1
            return False
        fresh = (key, bucket) not in self._seen
        self._seen.add((key, bucket))
        return fresh

    def end_batch(self) -> None:
        self._watermark = max(self._watermark, self._greatest - self._delay)
        self._seen = {one for one in self._seen if one[1] >= self._watermark}


def offer(state: SparkDedup, buckets: Buckets, key: str, received: int, now: int) -> bool:
    first, *others = buckets.marks(buckets.counted_seconds(received, now))
    passes = state.offer(key, first)
    for other in others:
        state.offer(key, other)
    return passes


steps = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from("abc"), st.integers(0, LATEST_SECONDS - 1), st.booleans()),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_no_repeat_within_the_window_passes_and_nothing_is_ever_late(frames: list[tuple[int, str, int, bool]]) -> None:
    """Frames of one partition come in the order of their receipt, read up to LATEST seconds after it."""
    buckets, state = Buckets(WINDOW), SparkDedup(Buckets(WINDOW))
    received, passed = 10_000_000, dict[str, int]()
    for pause, key, read_after, batch_ends in frames:
        received += pause
        if offer(state, buckets, key, received, received + read_after):
            assert received - passed.get(key, -WINDOW - 1) > WINDOW
            passed[key] = received
        if batch_ends:
            state.end_batch()
    assert state.late == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(2 * WINDOW * 2 + 1, 10_000), min_size=1, max_size=20))
def test_an_id_that_comes_again_long_after_the_window_passes(pauses: list[int]) -> None:
    buckets, state = Buckets(WINDOW), SparkDedup(Buckets(WINDOW))
    received = 10_000_000
    for pause in pauses:
        received += pause
        assert offer(state, buckets, "a", received, received)
        state.end_batch()


def test_state_is_bounded() -> None:
    buckets, state = Buckets(WINDOW), SparkDedup(Buckets(WINDOW))
    sizes = []
    for second in range(0, 20_000, 5):
        offer(state, buckets, f"k{second}", 10_000_000 + second, 10_000_000 + second)
        if second % 60 == 0:
            state.end_batch()
        sizes.append(len(state._seen))
    assert max(sizes) == max(sizes[len(sizes) // 2 :])
    assert max(sizes) < (buckets.delay_seconds + 3 * buckets.bucket_seconds) / 5 * 2


def test_a_backlog_read_late_is_lifted_and_not_lost() -> None:
    buckets, state = Buckets(WINDOW), SparkDedup(Buckets(WINDOW))
    now = 10_000_000
    offer(state, buckets, "live", now, now)
    state.end_batch()
    assert offer(state, buckets, "old", now - 86_400, now)
    assert state.late == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5_000), st.integers(-86_400, 86_400), st.integers(1, 4 * WINDOW), st.integers(0, LATEST_SECONDS))
def test_nothing_is_late_when_the_clock_or_the_window_was_another_before(
    second: int, jump: int, window_before: int, read_after: int
) -> None:
    before, buckets, now = Buckets(window_before), Buckets(WINDOW), 10_000_000 + second
    state = SparkDedup(before)
    offer(state, before, "a", now + jump, now + jump)
    state.end_batch()
    begins = max(now, buckets.least_now(state._watermark))
    assert offer(state, buckets, "b", now - read_after, begins)
    assert state.late == 0

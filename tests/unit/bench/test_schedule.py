"""When frames are due: fixed beforehand, and never called due too early."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.pacing import BURST_FRAMES, PACE_SECONDS, due_now, pause
from gateway.bench.schedule import SECOND_NS, Schedule

RATES = st.floats(min_value=0.1, max_value=200_000)


class TestSchedule:
    def test_frames_are_due_at_equal_distances_from_the_start(self) -> None:
        schedule = Schedule(start=7, rate=1_000.0, total=4)
        assert [schedule.due(index) for index in range(4)] == [7, 1_000_007, 2_000_007, 3_000_007]

    def test_nothing_is_due_before_the_start(self) -> None:
        schedule = Schedule(start=7, rate=1_000.0, total=4)
        assert (schedule.due_by(0), schedule.due_by(6), schedule.due_by(7)) == (0, 0, 1)

    def test_after_the_end_all_are_due_and_no_more(self) -> None:
        assert Schedule(start=0, rate=10.0, total=4).due_by(SECOND_NS) == 4

    def test_a_stall_does_not_move_what_is_due(self) -> None:
        """The schedule knows nothing of what was sent: after a second of silence all of that second is due."""
        schedule = Schedule(start=0, rate=100.0, total=1_000)
        assert schedule.due_by(2 * SECOND_NS) - schedule.due_by(SECOND_NS) == 100

    @given(RATES, st.integers(0, 10_000))
    @settings(max_examples=200, deadline=None)
    def test_a_frame_is_due_from_its_own_time_on_and_not_before(self, rate: float, index: int) -> None:
        schedule = Schedule(start=123, rate=rate, total=10_001)
        due = schedule.due(index)
        assert schedule.due_by(due) >= index
        assert schedule.due_by(due - 1) <= index

    @given(RATES, st.integers(0, 10**12))
    @settings(max_examples=200, deadline=None)
    def test_no_frame_is_called_due_before_its_time(self, rate: float, now: int) -> None:
        schedule = Schedule(start=0, rate=rate, total=1_000_000)
        count = schedule.due_by(now)
        assert count == 0 or schedule.due(count - 1) <= now


class TestPace:
    def test_a_generator_that_is_behind_sends_a_burst_and_looks_again(self) -> None:
        schedule = Schedule(start=0, rate=1e6, total=10 * BURST_FRAMES)
        assert due_now(schedule, BURST_FRAMES, SECOND_NS) == 2 * BURST_FRAMES

    def test_it_sleeps_until_the_next_frame_is_due(self) -> None:
        assert pause(Schedule(start=0, rate=10.0, total=5), 3, 0) == 0.3

    def test_it_never_sleeps_for_less_than_its_pace(self) -> None:
        assert pause(Schedule(start=0, rate=1e6, total=5), 3, 0) == PACE_SECONDS

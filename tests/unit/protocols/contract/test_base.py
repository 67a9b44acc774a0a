"""Tests what every session gets from the base: timers, ids that are over, runs, stamps, a catch for our faults."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.core.reasons import MeshError, Reason
from gateway.core.wire import U16, U64
from gateway.protocols.actions import Terminated
from gateway.protocols.error_bodies import error_body
from gateway.protocols.frame_run import FrameRun
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from gateway.protocols.recent_ids import RecentIds
from gateway.protocols.stamps import stamped
from gateway.protocols.timers import Timers
from tests.unit.protocols.contract.conversation import Conversation, only, settings


class TestTimers:
    def test_they_come_up_in_order_and_once(self) -> None:
        timers = Timers()
        for name, due in (("late", 3.0), ("soon", 1.0), ("then", 2.0)):
            timers.set(name, due)
        assert timers.next() == 1.0
        assert timers.expired(0.9) == []
        assert timers.expired(2.0) == ["soon", "then"]
        assert timers.expired(2.0) == []
        assert timers.next() == 3.0

    def test_one_that_is_set_again_is_moved(self) -> None:
        timers = Timers()
        timers.set("ping", 1.0)
        timers.set("ping", 5.0)
        assert timers.next() == 5.0
        timers.set("ping", 2.0)
        assert timers.expired(2.0) == ["ping"]
        assert timers.next() is None

    def test_one_that_is_cleared_does_not_come_up(self) -> None:
        timers = Timers()
        timers.set("ping", 1.0)
        timers.clear("ping")
        timers.clear("never set")
        assert (timers.next(), timers.expired(9.0)) == (None, [])

    def test_one_that_is_moved_all_the_time_does_not_pile_up(self) -> None:
        timers = Timers()
        for due in range(10_000):
            timers.set("ping", due)
        assert len(timers._heap) < 100
        assert timers.next() == 9_999

    @given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 20))), max_size=400))
    @profile(max_examples=100, deadline=None)
    def test_they_are_what_a_plain_table_would_be(self, changes: list[tuple[int, int | None]]) -> None:
        timers, table = Timers(), dict[int, int]()
        for name, due in changes:
            if due is None:
                timers.clear(name)
                table.pop(name, None)
            else:
                timers.set(name, due)
                table[name] = due
        assert timers.next() == min(table.values(), default=None)
        assert sorted(map(str, timers.expired(10))) == sorted(str(name) for name, due in table.items() if due <= 10)


class TestRecentIds:
    def test_an_id_is_remembered_until_it_is_taken(self) -> None:
        recent = RecentIds()
        recent.add(5)
        assert [recent.take(5), recent.take(5), recent.take(6)] == [True, False, False]

    def test_beyond_so_many_the_oldest_is_forgotten(self) -> None:
        recent = RecentIds(limit=2)
        for number in (1, 2, 1, 3):
            recent.add(number)
        assert [recent.take(1), recent.take(2), recent.take(3)] == [True, False, True]


class TestFrameRun:
    def test_what_is_left_out_is_not_in_it(self) -> None:
        run, buffer = FrameRun(), bytearray(b"aaXbYYccc?")
        run.lengths += [2, 1, 3]
        run.leave_out(buffer, 2, 1)
        run.leave_out(buffer, 4, 1)
        run.leave_out(buffer, 5, 1)
        assert run.cut(buffer, 9) == (b"aabccc", (2, 1, 3))

    def test_it_goes_on_from_where_it_was_cut(self) -> None:
        run, buffer = FrameRun(), bytearray(b"aabbb")
        run.lengths.append(2)
        assert run.cut(buffer, 2) == (b"aa", (2,))
        run.lengths.append(3)
        assert run.cut(buffer, 5) == (b"bbb", (3,))
        assert run.cut(buffer, 5) == (b"", ())

    def test_the_buffer_is_free_again_after_it(self) -> None:
        run, buffer = FrameRun(), bytearray(b"aa")
        run.lengths.append(2)
        frames, _ = run.cut(buffer, 2)
        del buffer[:]
        assert frames == b"aa"


def test_a_stamp_is_written_wherever_it_belongs() -> None:
    assert stamped(b"\x00" * 5, (0, 3), U16, 0x1234) == bytes.fromhex("1234 00 1234")
    assert stamped(b"abc", (), U64, 7) == b"abc"


def test_an_error_of_the_mesh_says_its_code_and_what_happened() -> None:
    assert error_body(MeshError.TIMEOUT, 'no "answer"') == b'{"code":"timeout","message":"no \\"answer\\""}'


class FaultySession(HspSession):
    def _take_control(self, pos: int, now: float) -> int:
        raise ValueError(bytes(self._buffer))


def test_a_fault_of_ours_ends_one_session_and_says_where_but_not_what_the_peer_sent() -> None:
    talk = Conversation(FaultySession(settings(), HspOptions()))
    end = only(Terminated, talk.receives(b"\x03secret"))
    assert end.reason == Reason.INTERNAL
    assert end.detail.startswith("ValueError in _take_control, line ")
    assert "secret" not in end.detail
    assert talk.receives(b"\x03") == []

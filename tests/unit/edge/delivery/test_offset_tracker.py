"""Tests what may be committed: never past a delivery without its outcome, and with the positions of then."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.event import Kind
from gateway.edge.delivery.offset_tracker import CHECKPOINTS, METADATA_BYTES, Checkpoint, CommittedState, OffsetTracker
from gateway.records.egress import Group, Position
from gateway.records.egress_codec import EgressBuilder, EgressRecord, Route, decode


def ledger(offset: int = 100) -> OffsetTracker:
    return OffsetTracker(7, Checkpoint(offset, {}, 1_000))


ROUTE = Route(Kind.EVENT, "temp.high", "emm", 7, (Group("emm", b"", addresses=(("devices", "192.0.2.7:9"),)),))


def record(*positions: Position) -> EgressRecord:
    """Returns what the router wrote for one raw record."""
    builder = EgressBuilder(positions[0].partition, positions[0].offset, 1_000_000)
    for position in positions:
        builder.deliver(position.index, position.part, ROUTE, 0, b"frame")
    [value] = builder.finish()
    return decode(value)


def new_of(book: OffsetTracker, end: int, *positions: Position) -> list[Position]:
    """Handles a record, behind which the offset `end` stands, and returns what was new of it."""
    new = book.begin(record(*positions))
    book.done(end)
    return [entry.position for entry in new]


def handle(book: OffsetTracker, offset: int, *, sessions: int = 0, owed: int = 0) -> None:
    book.begin(record(Position(0, offset, 0)))
    for _ in range(sessions):
        book.open(offset)
    for _ in range(owed):
        book.open(offset, owed=True)
    book.done(offset + 1)


def test_a_position_is_new_once_and_nothing_before_it_is_new_again() -> None:
    book = ledger()
    first, more = [Position(0, 5, 0), Position(0, 5, 0, part=1)], Position(0, 5, 1)
    assert new_of(book, 101, *first) == first
    assert new_of(book, 102, Position(1, 2, 0)) == [Position(1, 2, 0)]
    assert new_of(book, 103, *first) == []
    assert new_of(book, 104, Position(0, 4, 9)) == []
    assert new_of(book, 105, *first, more) == [more]


def test_a_checkpoint_within_a_record_keeps_the_positions_of_before_it() -> None:
    book = ledger()
    handle(book, 100)
    book.begin(record(Position(0, 101, 0), Position(0, 101, 1)))
    book.open(101)
    book.settle(101)
    found = book.checkpoint(2_000)
    assert found.checkpoint == Checkpoint(101, {0: Position(0, 100, 0)}, 2_000)
    again = OffsetTracker(8, found.checkpoint)
    assert len(again.begin(record(Position(0, 101, 0), Position(0, 101, 1)))) == 2


def test_what_nothing_is_open_of_may_be_committed() -> None:
    book = ledger()
    handle(book, 100)
    found = book.checkpoint(2_000)
    assert found == CommittedState(7, Checkpoint(101, {0: Position(0, 100, 0)}, 2_000), 101, 2_000)


def test_the_offset_stays_before_the_oldest_open_delivery_with_the_positions_of_there() -> None:
    book = ledger()
    handle(book, 100)
    book.checkpoint(2_000)
    handle(book, 101, sessions=2)
    handle(book, 102)
    assert book.checkpoint(3_000).checkpoint == Checkpoint(101, {0: Position(0, 100, 0)}, 2_000)
    book.settle(101)
    assert book.checkpoint(4_000).checkpoint.offset == 101
    book.settle(101)
    assert book.checkpoint(5_000).checkpoint == Checkpoint(103, {0: Position(0, 102, 0)}, 3_000)


def test_what_is_owed_holds_the_offset_but_not_what_sessions_lack() -> None:
    book = ledger()
    handle(book, 100, owed=1)
    handle(book, 101, sessions=1)
    book.settle(101)
    found = book.checkpoint(2_000)
    assert (found.checkpoint.offset, found.sessions_to, found.sessions_ms) == (100, 102, 2_000)
    book.settle(100, owed=True)
    assert book.checkpoint(3_000).checkpoint.offset == 102


def test_what_was_owed_long_ago_must_end_once_a_restart_would_read_too_many_outcomes() -> None:
    book = ledger()
    handle(book, 100, owed=1)  # and stays open
    for offset in range(101, 140):
        book.checkpoint(offset)
        handle(book, offset, owed=1)
        book.settle(offset, owed=True)
    assert book.owed_too_long(39) == 0
    before = book.owed_too_long(38)
    assert 120 <= before <= 122
    book.settle(100, owed=True)
    book.checkpoint(140)
    assert book.owed_too_long(0) == 0


def test_what_sessions_hold_back_is_no_reason_to_give_up_what_is_owed() -> None:
    book = ledger()
    handle(book, 100, sessions=1)  # and stays open
    for offset in range(101, 140):
        book.checkpoint(offset)
        handle(book, offset, owed=1)
        book.settle(offset, owed=True)
    book.checkpoint(140)
    assert book.owed_too_long(1) == 0


def test_long_open_deliveries_keep_few_checkpoints_and_the_oldest_of_them() -> None:
    book = ledger(0)
    handle(book, 0, owed=1)
    for offset in range(1, 10 * CHECKPOINTS):
        handle(book, offset)
        assert book.checkpoint(offset).checkpoint.offset == 0
    book.settle(0, owed=True)
    assert book.checkpoint(1).checkpoint.offset == 10 * CHECKPOINTS


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 40)), max_size=120))
def test_a_restart_from_any_commit_meets_every_open_delivery_and_judges_it_as_new(
    steps: list[tuple[int, int, int]],
) -> None:
    """Each step handles a record with so many deliveries, and settles one of those that are open, if there is one."""
    book, waiting = ledger(0), []
    for offset, (sessions, owed, settled) in enumerate(steps):
        handle(book, offset, sessions=sessions, owed=owed)
        waiting += [(offset, False)] * sessions + [(offset, True)] * owed
        if settled < len(waiting):
            at, is_owed = waiting.pop(settled)
            book.settle(at, owed=is_owed)
        found = book.checkpoint(offset)
        again = OffsetTracker(8, found.checkpoint)
        assert all(at >= found.checkpoint.offset for at, _ in waiting)
        assert all(at >= found.sessions_to for at, is_owed in waiting if not is_owed)
        assert all(new_of(again, at + 1, Position(0, at, 0)) for at in range(found.checkpoint.offset, offset + 1))


def test_what_was_committed_is_read_back() -> None:
    positions = {0: Position(0, 2**40, 65_534, 3), 9: Position(9, 0, 0)}
    told = CommittedState(2**42, Checkpoint(77, positions, 1_700_000_000_000), 99, 1_700_000_000_999)
    assert CommittedState.from_metadata(77, told.to_metadata()) == told


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA", "kwECAw=="])
def test_metadata_that_no_edge_wrote_tells_nothing(text: str) -> None:
    assert CommittedState.from_metadata(77, text) == CommittedState(0, Checkpoint(77))


def test_the_positions_of_280_partitions_fit_what_a_broker_keeps() -> None:
    positions = {number: Position(number, 2**31, 199, 1) for number in range(280)}
    told = CommittedState(2**41, Checkpoint(2**40, positions, 2**41), 2**40, 2**41)
    assert len(told.to_metadata()) <= METADATA_BYTES

"""Egress records: what is written is read back, in one record or in several; what no router wrote is refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.records.egress import (
    Confirm,
    Deliver,
    EdgeRestarted,
    Entry,
    Group,
    InterestApplied,
    MigrationPhase,
    MigrationStep,
    Position,
    RecordConfirmed,
    SourceRefused,
)
from gateway.records.egress_codec import (
    HEAD_BYTES,
    ROW_BYTES,
    EgressBuilder,
    EgressRecord,
    Route,
    decode,
    encode,
    record_of,
)
from tests.refusals import reason_of

GROUPS = (
    Group("emm", b"frame", addresses=(("devices", "192.0.2.7:4000"), ("devices", "192.0.2.8:4000"))),
    Group("hsp", b"other", (1, 9), (3, 4), (), "req", b"reply", ("node:a@plc",)),
)
AT = Position(1, 2, 3, 4)
PLAIN = Deliver(AT, 7, Kind.EVENT, "temp.high", "emm", 1_700, GROUPS)
EVERYTHING = Deliver(
    AT, 7, Kind.REQUEST, "sum", "yamp", 1_700, GROUPS, "0-1-2", "0-0-1", 2, GROUPS[:1], Confirm("edge-1", "0-1-2"),
    True, "00-aa-bb-01",
)  # fmt: skip
ENTRIES: tuple[Entry, ...] = (
    PLAIN,
    EVERYTHING,
    InterestApplied(AT, "0-1-2", 3),
    RecordConfirmed(AT, "0-1-2", "edge-1", 1, True),
    EdgeRestarted(AT, "edge-1", 9),
    SourceRefused(AT, "devices", "192.0.2.7:4000"),
    *(MigrationStep(AT, step, "node:a@plc", "move", "edge-1", "edge-0.1.2") for step in MigrationPhase),
)
ROUTES = tuple(
    Route(Kind.EVENT, subject, "emm", 7, (Group("emm", b"", addresses=(("devices", f"192.0.2.{number}:1"),)),))
    for number, subject in enumerate(("temp.high", "temp.low", "größe"))
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_of_any_kind_is_read_back(entry: Entry) -> None:
    assert list(decode(encode(entry))) == [entry]


def test_a_row_is_read_back_as_the_delivery_that_it_stands_for() -> None:
    builder = EgressBuilder(1, 2, 1_000)
    builder.deliver(3, 4, ROUTES[1], 1_700, b"frame")
    (entry,) = decode(*builder.finish())
    group = Group("emm", b"frame", addresses=(("devices", "192.0.2.1:1"),))
    assert entry == Deliver(AT, 7, Kind.EVENT, "temp.low", "emm", 1_700, (group,))


def test_a_record_takes_no_more_than_a_row_for_each_frame_and_its_routes_once() -> None:
    frames = [bytes(200)] * 100
    builder = EgressBuilder(1, 2, 1_000_000)
    numbers = np.arange(100) % len(ROUTES)
    builder.deliver_run(np.arange(100, dtype="<u2"), numbers, ROUTES, np.zeros(100, "<i8"), frames)
    (record,) = builder.finish()
    assert len(record) <= HEAD_BYTES + sum(len(route.packed) for route in ROUTES) + 100 * (ROW_BYTES + 200)


# -- any mixture, in records of any size -----------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn) -> list[list[Entry]]:
    """Entries in the order of their positions; those of a list of several may be written as a run."""
    parts: list[list[Entry]] = []
    index = 0
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            count = draw(st.integers(1, 6))
            parts.append([_row(index + at, 0, draw) for at in range(count)])
            index += count
        else:
            made = [draw(st.sampled_from(ENTRIES)) for _ in range(draw(st.integers(1, 3)))]
            parts += [[replace(entry, position=Position(1, 2, index, part))] for part, entry in enumerate(made)]
            index += 1
    return parts


def _row(index: int, part: int, draw: st.DrawFn) -> Deliver:
    route = draw(st.sampled_from(ROUTES))
    return route.delivery(Position(1, 2, index, part), draw(st.integers(0, 2**62)), draw(st.binary(max_size=40)))


def write(parts: list[list[Entry]], largest: int) -> list[bytes]:
    builder = EgressBuilder(1, 2, largest)
    by_subject = {route.subject: at for at, route in enumerate(ROUTES)}
    for part in parts:
        if len(part) == 1:
            builder.add(part[0])
            continue
        rows = [entry for entry in part if isinstance(entry, Deliver)]
        builder.deliver_run(
            np.array([row.position.index for row in rows], "<u2"),
            np.array([by_subject[row.subject] for row in rows]),
            ROUTES,
            np.array([row.received_at for row in rows], "<i8"),
            [row.groups[0].frame for row in rows],
        )
    return builder.finish()


@given(contents(), st.integers(0, 1_500))
def test_what_is_written_is_read_back_in_its_order_from_records_of_any_size(
    parts: list[list[Entry]], largest: int
) -> None:
    records = write(parts, largest)
    assert [entry for record in records for entry in decode(record)] == [entry for part in parts for entry in part]
    assert all(len(record) <= largest or len(decode(record)) == 1 for record in records)


@given(contents(), st.data())
def test_a_record_is_cut_behind_any_position(parts: list[list[Entry]], data: st.DataObject) -> None:
    entries = [entry for part in parts for entry in part]
    position = Position(1, data.draw(st.integers(1, 3)), data.draw(st.integers(0, 20)), data.draw(st.integers(0, 3)))
    again = data.draw(st.integers(0, 20))
    for record in map(decode, write(parts, 1_000_000)):
        rest = record.after(position)
        assert list(rest) == [entry for entry in entries if entry.position > position]
        assert len(rest) == len(list(rest))
        later = Position(1, 2, again)
        assert list(rest.after(later)) == [entry for entry in entries if entry.position > max(later, position)]


# -- what no router wrote --------------------------------------------------------------------------------------------


@given(contents(), st.integers(0, 2**64))
def test_a_damaged_record_is_read_or_refused(parts: list[list[Entry]], seed: int) -> None:
    random = Random(seed)
    for record in write(parts, 700):
        damaged = bytearray(record)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        read_or_refuse(bytes(damaged))
        read_or_refuse(record[: random.randrange(len(record))])
        read_or_refuse(record + random.randbytes(random.randint(1, 30)))


def read_or_refuse(data: bytes) -> None:
    with suppress(Rejected):
        record = decode(data)
        assert len(list(record)) == len(record)


def test_a_record_that_is_cut_off_anywhere_is_refused() -> None:
    whole = encode(EVERYTHING)
    for end in range(len(whole)):
        with pytest.raises(Rejected):
            decode(whole[:end])


@given(st.binary(max_size=64) | st.binary(max_size=64).map(lambda data: b"MGE\2" + data))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


@pytest.mark.parametrize("positions", [((3, 1), (3, 1)), ((3, 1), (3, 0)), ((4, 0), (3, 1))])
def test_entries_that_are_not_in_the_order_of_their_positions_are_refused(
    positions: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    builder = EgressBuilder(1, 2, 1_000)
    for position in positions:
        builder.deliver(*position, ROUTES[0], 0, b"frame")
    (record,) = builder.finish()
    assert reason_of(decode, record) is Reason.MALFORMED


@pytest.mark.parametrize("record", [b"MGE\3" + encode(PLAIN)[4:], msgpack.packb([3])])
def test_another_version_is_told(record: bytes) -> None:
    assert reason_of(decode, record) is Reason.UNSUPPORTED_VERSION


# -- version 1 -------------------------------------------------------------------------------------------------------

PACKED = [[g.protocol, g.frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed] for g in GROUPS]
HEAD = [1, [1, 2, 3, 4], 7, "request", "sum", "yamp", 1_700, PACKED]
FIRST_VERSION: list[tuple[list[Any], Entry]] = [
    ([None, "0-1-2", "0-0-1", 2, PACKED[:1], ["edge-1", "0-1-2"], None, None, None, "00-aa-bb-01"],
     replace(EVERYTHING, is_migrated=False)),
    ([None, ""], replace(PLAIN, kind=Kind.REQUEST, subject="sum", origin="yamp")),
    ([["0-1-2", 3], ""], InterestApplied(AT, "0-1-2", 3)),
    ([None, "", "", 0, [], None, ["0-1-2", 1, True], None, None, ""], RecordConfirmed(AT, "0-1-2", "", 1, True)),
    ([None, "", "", 0, [], None, None, None, ["edge-1", 9], ""], EdgeRestarted(AT, "edge-1", 9)),
    ([None, "", "", 0, [], None, None, ["give", "n", "m", "edge-1", "edge-0.1.2"]],
     MigrationStep(AT, MigrationPhase.GIVE, "n", "m", "edge-1", "edge-0.1.2")),
    ([None, "", "0-0-1", 0, [], None, None, ["given", "n", "m", "", ""], None, "", "what a later build says"],
     replace(PLAIN, kind=Kind.REQUEST, subject="sum", origin="yamp", first_id="0-0-1", is_migrated=True)),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "entry"), FIRST_VERSION)
def test_a_record_of_version_1_is_still_read(fields: list[Any], entry: Entry) -> None:
    record = decode(msgpack.packb([*HEAD, *fields]))
    assert list(record) == [entry]
    assert (record.partition, record.offset, record.position(0)) == (1, 2, AT)


BAD = {
    "a position of five": (1, [1, 2, 3, 4, 5]),
    "a position of one": (1, [1]),
    "no position": (1, None),
    "an unknown kind": (3, "rumour"),
    "a kind that is a list": (3, ["event"]),
    "no groups": (7, None),
    "a group that says too little": (7, [["emm"]]),
    "a group that says too much": (7, [["emm", b"", [], [], [], "", b"", [], 1]]),
    "an unknown step": (15, ["lend", "n", "m"]),
    "a step under a name": (15, {"step": "give"}),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_router_of_version_1_wrote_is_refused(what: str) -> None:
    at, value = BAD[what]
    fields = [*HEAD, *FIRST_VERSION[1][0], "", 0, [], None, None, None, None, ""]
    fields[at] = value
    record = msgpack.packb(fields)
    assert reason_of(decode, record) is Reason.MALFORMED


VALUES = st.none() | st.integers(0, 2**64 - 1) | st.text() | st.binary() | st.lists(st.integers(0, 9))


@given(st.lists(VALUES, max_size=20).map(lambda fields: msgpack.packb([1, *fields])))
def test_any_fields_of_version_1_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


def test_a_record_of_one_entry_is_as_it_would_be_read() -> None:
    record = record_of(EVERYTHING)
    assert isinstance(record, EgressRecord)
    assert list(record) == list(decode(encode(EVERYTHING)))

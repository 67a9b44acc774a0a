"""Egress records: what is written is read back, and what no router wrote is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.egress import (
    VERSION,
    Applied,
    Begun,
    Confirm,
    Confirmed,
    Egress,
    Group,
    Handover,
    Position,
    Step,
    decode,
)  # fmt: skip
from gateway.event import Kind
from gateway.reasons import Reason, Rejected

GROUPS = (
    Group("emm", b"frame", addresses=(("devices", "192.0.2.7:4000"), ("devices", "192.0.2.8:4000"))),
    Group("hsp", b"other", (1, 9), (3, 4), (), "req", b"reply", ("node:a@plc",)),
)
COMMON = Egress(Position(1, 2, 3, 4), 7, Kind.EVENT, "temp.high", "emm", 1_700, GROUPS)
RARE = {
    "applied": Applied("0-1-2", 3),
    "ticket": "0-1-2",
    "first_id": "0-0-1",
    "needed": 2,
    "otherwise": GROUPS[:1],
    "confirm": Confirm("edge-1", "0-1-2"),
    "confirmed": Confirmed("0-1-2", 1, True),
    "handover": Handover(Step.GIVEN, "node:a@plc", "move", "edge-1", "edge-0.1.2"),
    "begun": Begun("edge-1", 9),
    "trace": "00-aa-bb-01",
}


def with_rare(**fields: Any) -> Egress:
    return Egress(COMMON.position, 7, Kind.REQUEST, "sum", "yamp", 1_700, GROUPS, **fields)


FIELDS = msgpack.unpackb(COMMON.encode())
ALL_FIELDS = msgpack.unpackb(with_rare(**RARE).encode())


def test_a_common_record_is_read_back() -> None:
    assert decode(COMMON.encode()) == COMMON


@pytest.mark.parametrize("name", RARE)
def test_what_few_records_have_is_read_back(name: str) -> None:
    fields = {name: RARE[name]} | ({"needed": 1} if name == "otherwise" else {})
    assert decode(with_rare(**fields).encode()) == with_rare(**fields)


def test_a_record_with_everything_is_read_back() -> None:
    assert decode(with_rare(**RARE).encode()) == with_rare(**RARE)


@pytest.mark.parametrize("count", range(len(FIELDS), len(ALL_FIELDS) + 1))
def test_records_of_earlier_builds_end_sooner(count: int) -> None:
    read = decode(msgpack.packb(ALL_FIELDS[:count]))
    assert (read.first_id, read.trace) == (
        "0-0-1" if count > len(FIELDS) else "", "00-aa-bb-01" if count == len(ALL_FIELDS) else "",
    )  # fmt: skip


def test_what_a_later_build_says_beside_is_passed_over() -> None:
    assert decode(msgpack.packb([*ALL_FIELDS, "more"])) == decode(msgpack.packb(ALL_FIELDS))


def test_another_version_is_told() -> None:
    with pytest.raises(Rejected) as refused:
        decode(msgpack.packb([VERSION + 1]))
    assert refused.value.reason is Reason.UNSUPPORTED_VERSION


POSITION, KIND, GROUPS_AT, HANDOVER = 1, 3, 7, 15
BAD = {
    "a position of five": (POSITION, [1, 2, 3, 4, 5]),
    "a position of one": (POSITION, [1]),
    "no position": (POSITION, None),
    "an unknown kind": (KIND, "rumour"),
    "a kind that is a list": (KIND, ["event"]),
    "no groups": (GROUPS_AT, None),
    "a group that says too little": (GROUPS_AT, [["emm"]]),
    "a group that says too much": (GROUPS_AT, [["emm", b"", [], [], [], "", b"", [], 1]]),
    "an unknown step": (HANDOVER, ["lend", "n", "m"]),
    "a step under a name": (HANDOVER, {"step": "give"}),
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_router_wrote_is_refused(what: str) -> None:
    at, value = BAD[what]
    fields = list(ALL_FIELDS)
    fields[at] = value
    record = msgpack.packb(fields)
    with pytest.raises(Rejected) as refused:
        decode(record)
    assert refused.value.reason is Reason.MALFORMED


def test_a_record_that_is_cut_off_anywhere_is_refused() -> None:
    whole = with_rare(**RARE).encode()
    for end in range(len(whole)):
        with pytest.raises(Rejected):
            decode(whole[:end])


VALUES = st.none() | st.integers(0, 2**64 - 1) | st.text() | st.binary() | st.lists(st.integers(0, 9))


@given(st.binary(max_size=64) | st.lists(VALUES, max_size=20).map(lambda fields: msgpack.packb([VERSION, *fields])))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(Rejected):
        decode(data)

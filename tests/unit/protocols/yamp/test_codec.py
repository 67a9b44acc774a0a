"""Bytes and frames: each vector whole, byte by byte, and with more behind it; then what is no frame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.yamp.codec import decode, encode, frame_length, shortened, split
from gateway.protocols.yamp.frames import (
    MAX_URI_BYTES,
    Cancel,
    Close,
    CloseRedirect,
    Frame,
    Handshake,
    Ping,
    Pong,
    Request,
    Response,
    ResponseType,
    UserEvent,
)
from tests.refusals import reason_of

from .vectors import EVENT, FRAMES, frame, uid

LIMIT = 1_048_576
vectors = pytest.mark.parametrize(("data", "expected"), FRAMES.values(), ids=FRAMES)


@vectors
def test_a_frame_is_read_and_written_as_the_text_says(data: bytes, expected: Frame) -> None:
    assert decode(data) == expected
    assert encode(expected) == data


@vectors
def test_a_frame_is_whole_at_its_last_byte_and_not_before(data: bytes, expected: Frame) -> None:
    for end in range(len(data)):
        assert split(data[:end], LIMIT) == ([], None)
    assert split(data, LIMIT) == ([len(data)], None)


@vectors
def test_what_follows_a_frame_is_no_part_of_it(data: bytes, expected: Frame) -> None:
    assert split(data + EVENT + EVENT[:-1], LIMIT) == ([len(data), len(EVENT)], None)
    assert reason_of(decode, data + b"\0") is Reason.MALFORMED


@vectors
def test_a_frame_that_is_cut_short_is_refused(data: bytes, expected: Frame) -> None:
    for end in range(1, len(data)):
        assert reason_of(decode, data[:end]) is Reason.TRUNCATED


BAD = {
    "unknown frame type": (frame("09"), Reason.UNKNOWN_TYPE, "unknown frame type 0x09"),
    "progressive neither true nor false": (
        frame("06 02*16 03 73756d 02 00000000"),
        Reason.MALFORMED,
        "progressive is 0x02",
    ),
    "kill neither true nor false": (frame("07 08*16 00 07*16 ff"), Reason.MALFORMED, "kill is 0xff"),
    "unknown response type": (frame("08 09*16 00 02*16 04 00000000"), Reason.UNKNOWN_TYPE, "response type 0x04"),
    "uri not UTF-8": (frame("05 01*16 01 ff 00000000"), Reason.BAD_ENCODING, "a uri that is not UTF-8"),
    "serializer not UTF-8": (frame("00 0001 01 ff"), Reason.BAD_ENCODING, "a serializer that is not UTF-8"),
    "reason not UTF-8": (frame("03 0001 ff"), Reason.BAD_ENCODING, "a reason that is not UTF-8"),
    "url not UTF-8": (frame("04 0001 ff"), Reason.BAD_ENCODING, "a url that is not UTF-8"),
    "event without uri": (frame("05 01*16 00 00000000"), Reason.MISSING_FIELD, "an event without a uri"),
    "request without uri": (frame("06 01*16 00 00 00000000"), Reason.MISSING_FIELD, "a request without a uri"),
}


@pytest.mark.parametrize(("data", "reason", "detail"), BAD.values(), ids=BAD)
def test_a_bad_frame_is_refused_with_what_is_wrong(data: bytes, reason: Reason, detail: str) -> None:
    with pytest.raises(Rejected) as refused:
        decode(data)
    assert refused.value.reason is reason
    assert detail in refused.value.detail
    assert not refused.value.can_continue


def test_an_unknown_type_is_known_by_its_first_byte_and_the_frames_before_it_count() -> None:
    lengths, refused = split(EVENT + b"\x47", LIMIT)
    assert lengths == [len(EVENT)]
    assert refused is not None
    assert refused.reason is Reason.UNKNOWN_TYPE


def test_a_frame_may_be_as_long_as_the_limit_says_and_not_one_byte_longer() -> None:
    assert frame_length(EVENT, 0, len(EVENT)) == len(EVENT)
    assert reason_of(frame_length, EVENT, 0, len(EVENT) - 1) is Reason.TOO_LARGE


@pytest.mark.parametrize(
    "head", ["05 01*16 01 61 ffffffff", "06 01*16 01 61 00 00100000", "08 01*16 01 61 02*16 00 00100000"]
)
def test_a_body_that_is_too_long_is_refused_when_its_size_is_read(head: str) -> None:
    lengths, refused = split(frame(head), LIMIT)
    assert lengths == []
    assert refused is not None
    assert refused.reason is Reason.TOO_LARGE
    assert split(frame(head)[:-1], LIMIT) == ([], None)


def test_a_uri_has_at_most_255_bytes() -> None:
    longest = UserEvent(uid(1), "é" * 127 + "a")
    assert decode(encode(longest)) == longest
    assert reason_of(encode, UserEvent(uid(1), "a" * (MAX_URI_BYTES + 1))) is Reason.TOO_LARGE


def test_a_reason_that_is_too_long_is_cut_between_characters() -> None:
    assert len(shortened("a" * 70_000)) == 65_535
    assert shortened("é" * 40_000) == "é" * 32_767
    assert decode(encode(Close(shortened("é" * 40_000)))) == Close("é" * 32_767)


UIDS = st.binary(min_size=16, max_size=16)
URIS = st.text(min_size=1, max_size=60)
BODIES = st.binary(max_size=60)
NAMES = st.text(max_size=60)
FRAME: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Handshake, NAMES, st.integers(0, 0xFFFF)),
    st.builds(Ping, st.binary(max_size=255)),
    st.builds(Pong, st.binary(max_size=255)),
    st.builds(Close, NAMES),
    st.builds(CloseRedirect, NAMES),
    st.builds(UserEvent, UIDS, URIS, BODIES),
    st.builds(Request, UIDS, URIS, BODIES, st.booleans()),
    st.builds(Cancel, UIDS, NAMES, UIDS, st.booleans()),
    st.builds(Response, UIDS, NAMES, UIDS, st.sampled_from(ResponseType), BODIES),
)


@given(FRAME)
@settings(max_examples=200, deadline=None)
def test_every_frame_survives_its_bytes(said: Frame) -> None:
    data = encode(said)
    assert decode(data) == said
    assert split(data, len(data)) == ([len(data)], None)


def outcome(data: bytes) -> Frame | Reason:
    try:
        return decode(data)
    except Rejected as refused:
        return refused.reason


@given(st.binary(max_size=80) | st.builds(lambda kind, rest: bytes([kind]) + rest, st.integers(0, 9), st.binary()))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    lengths, refused = split(data, 64)
    assert sum(lengths) <= len(data)
    assert refused is None or not refused.can_continue
    pos = 0
    for length in lengths:
        assert outcome(data[pos : pos + length]) is not Reason.TRUNCATED
        pos += length


@given(FRAME, st.data())
@settings(max_examples=200, deadline=None)
def test_a_frame_with_one_byte_changed_is_a_frame_or_refused(said: Frame, data: st.DataObject) -> None:
    changed = bytearray(encode(said))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    read = outcome(bytes(changed))
    assert read != said

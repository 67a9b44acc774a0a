"""Messages in pieces: what joins them, and what bounds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.reasons import Reason
from gateway.protocols.wolpertinger.fragments import (
    EXPIRY_SECONDS,
    MAX_OPEN_SETS,
    OPEN_WHOLES,
    PIECE_COST_BYTES,
    Fragments,
)
from gateway.protocols.wolpertinger.frames import BadTransmission, Piece, Result


def piece(message_id: int, index: int, count: int, text: bytes = b"AAAA", **metadata: int) -> Piece:
    return Piece(message_id, text, index=index, count=count, gzip=metadata.get("gzip"))


def refusal(fragments: Fragments, refused: Piece, now: float = 0.0) -> BadTransmission:
    with pytest.raises(BadTransmission) as raised:
        fragments.add(refused, now)
    assert raised.value.result == Result.SPLITTING
    assert raised.value.message_id == refused.message_id
    return raised.value


def test_the_last_piece_to_come_completes_the_message() -> None:
    fragments = Fragments(1000)
    assert fragments.add(piece(8, 1, 3, b"b", gzip=7), 0.0) is None
    assert fragments.add(piece(8, 2, 3, b"c", gzip=7), 0.0) is None
    assert fragments.add(piece(8, 0, 3, b"a", gzip=7), 0.0) == Piece(8, b"abc", gzip=7)
    assert fragments.due is None


def test_two_messages_may_come_interleaved() -> None:
    fragments = Fragments(1000)
    assert fragments.add(piece(1, 0, 2, b"a"), 0.0) is None
    assert fragments.add(piece(2, 0, 2, b"x"), 0.0) is None
    assert fragments.add(piece(1, 1, 2, b"b"), 0.0) == Piece(1, b"ab")
    assert fragments.add(piece(2, 1, 2, b"y"), 0.0) == Piece(2, b"xy")


def test_a_repeated_piece_counts_once() -> None:
    fragments = Fragments(1000)
    assert fragments.add(piece(8, 0, 2, b"a"), 0.0) is None
    assert fragments.add(piece(8, 0, 2, b"a"), 0.0) is None
    assert fragments.add(piece(8, 1, 2, b"b"), 0.0) == Piece(8, b"ab")


UNLIKE = [
    pytest.param(piece(8, 1, 3), id="another count"),
    pytest.param(piece(8, 1, 2, gzip=5), id="another gzip"),
    pytest.param(replace(piece(8, 1, 2), encrypted=True), id="encrypted of a sudden"),
    pytest.param(piece(8, 0, 2, b"BBBB"), id="an index again, with other text"),
]


@pytest.mark.parametrize("unlike", UNLIKE)
def test_a_piece_unlike_those_before_it_refuses_the_message(unlike: Piece) -> None:
    fragments = Fragments(1000)
    fragments.add(piece(8, 0, 2), 0.0)
    assert refusal(fragments, unlike).reason is Reason.MALFORMED
    assert fragments.due is None


def test_a_whole_may_be_as_large_as_the_limit() -> None:
    fragments = Fragments(1000)
    assert fragments.add(piece(8, 0, 2, b"A" * 500), 0.0) is None
    assert fragments.add(piece(8, 1, 2, b"A" * 500), 0.0) == Piece(8, b"A" * 1000)
    fragments.add(piece(9, 0, 2, b"A" * 500), 0.0)
    assert refusal(fragments, piece(9, 1, 2, b"A" * 501)).reason is Reason.TOO_LARGE
    assert fragments.due is None


def test_the_limit_holds_for_a_message_in_one_piece() -> None:
    fragments = Fragments(8)
    assert fragments.add(piece(1, 0, 1, b"A" * 8), 0.0) is not None
    assert refusal(fragments, piece(2, 0, 1, b"A" * 9)).reason is Reason.TOO_LARGE


def test_one_set_too_many_is_refused_and_no_other_suffers() -> None:
    fragments = Fragments(10_000)
    for message_id in range(1, MAX_OPEN_SETS + 1):
        assert fragments.add(piece(message_id, 0, 2, b"a"), 0.0) is None
    assert refusal(fragments, piece(MAX_OPEN_SETS + 1, 0, 2, b"a")).reason is Reason.OVERLOAD
    assert fragments.add(piece(1, 1, 2, b"b"), 0.0) == Piece(1, b"ab")
    assert fragments.add(piece(MAX_OPEN_SETS + 1, 0, 2, b"a"), 0.0) is None


def test_all_sets_together_hold_so_many_bytes_and_no_more() -> None:
    whole = 10 * PIECE_COST_BYTES
    fragments = Fragments(whole)
    room = OPEN_WHOLES * whole // PIECE_COST_BYTES
    for index in range(room):
        assert fragments.add(piece(1 + index % 2, index // 2, 1024, b""), 0.0) is None
    assert refusal(fragments, piece(3, 0, 2, b"")).reason is Reason.OVERLOAD
    assert refusal(fragments, piece(1, 1000, 1024, b"")).reason is Reason.OVERLOAD
    assert fragments.add(piece(3, 0, 2, b""), 0.0) is None


def test_an_unfinished_set_expires_and_gives_its_room_back() -> None:
    fragments = Fragments(1000)
    fragments.add(piece(1, 0, 2), 0.0)
    fragments.add(piece(2, 0, 2), 1.0)
    assert fragments.due == EXPIRY_SECONDS
    assert fragments.expire(EXPIRY_SECONDS - 0.1) == 0
    assert fragments.expire(EXPIRY_SECONDS) == 1
    assert fragments.due == EXPIRY_SECONDS + 1.0
    assert fragments.add(piece(2, 1, 2), EXPIRY_SECONDS) == Piece(2, b"AAAAAAAA")
    assert fragments.add(piece(1, 1, 2), EXPIRY_SECONDS) is None

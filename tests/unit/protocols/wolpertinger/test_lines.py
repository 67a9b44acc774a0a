"""Layer 1 in the session: a message is a line, however it is cut, and a line has a limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason
from gateway.protocols.actions import FramesReceived
from gateway.protocols.wolpertinger.frames import LINE_BYTES, PIECE_CHARACTERS
from gateway.protocols.wolpertinger.transmission import encode, pack
from tests.unit.protocols.contract.conversation import delivery, only
from tests.unit.protocols.wolpertinger.talk import (
    CALL_LINE,
    CALL_XML,
    VECTOR_CIPHER,
    Talk,
    confirmations,
    received,
    refused,
    talk,
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_is_a_message_and_blank_lines_are_none(end: bytes, conversation: Talk) -> None:
    done = conversation.receives(end + CALL_LINE[:-1] + end + end)
    assert only(FramesReceived, done).data == CALL_XML
    assert refused(conversation) == []


VECTORS: list[tuple[tuple[bytes, ...], bytes, bytes]] = [
    ((b"message_id:1;aGVsbG8=",), b"hello", b"result:0;message_id:1;"),
    (
        (
            b"message_id:8;fragment_count:2;fragment_index:0;aGVs",
            b"message_id:8;fragment_count:2;fragment_index:1;bG8=",
        ),
        b"hello",
        b"result:0;message_id:8;",
    ),
    ((b"message_id:30;encryption:aes;BGjxpSaepyRbuExk1FbpTQ==",), b"hello", b"result:0;message_id:30;"),
    (
        (b"message_id:31;encryption:aes;gzip:38;oUDOFL0Sy8EeFKcomTnoAJVA6cTdrGjaRcTUeEuJKjdhgjlFsekRp4GKwTg8zE1c",),
        b"hello wolpertinger",
        b"result:0;message_id:31;",
    ),
]


def talk_of(messages: tuple[bytes, ...]) -> Talk:
    """Uses the key of the vectors, where they are encrypted."""
    conversation = talk()
    conversation.session.cipher = VECTOR_CIPHER if b"encryption" in messages[0] else None
    return conversation


@pytest.mark.parametrize(("messages", "payload", "confirmation"), VECTORS)
def test_a_vector_is_read_whole(messages: tuple[bytes, ...], payload: bytes, confirmation: bytes) -> None:
    conversation = talk_of(messages)
    said = conversation.hears(b"\n".join(messages))
    assert received(conversation) == [payload]
    assert said[0] == confirmation


@pytest.mark.parametrize(("messages", "payload", "confirmation"), VECTORS)
def test_a_vector_is_read_one_byte_at_a_time(messages: tuple[bytes, ...], payload: bytes, confirmation: bytes) -> None:
    conversation = talk_of(messages)
    stream = b"\n".join(messages) + b"\n"
    for at in range(len(stream)):
        assert received(conversation) == []
        conversation.log(conversation.receives(stream[at : at + 1]))
    assert received(conversation) == [payload]
    assert conversation.says()[0] == confirmation


@pytest.mark.parametrize(("messages", "payload", "confirmation"), VECTORS)
def test_what_follows_a_vector_waits_for_its_own_end(
    messages: tuple[bytes, ...], payload: bytes, confirmation: bytes
) -> None:
    conversation = talk_of(messages)
    (another,) = encode(2, pack(b"again", conversation.session.cipher, compress=False))
    conversation.log(conversation.receives(b"\n".join(messages) + b"\n" + another[:-5]))
    assert received(conversation) == [payload]
    assert conversation.says()[0] == confirmation
    conversation.receives(another[-5:] + b"\n")
    assert received(conversation) == [payload, b"again"]


def test_messages_of_one_read_are_logged_together_and_confirmed_in_order(conversation: Talk) -> None:
    conversation.slow_log = True
    done = conversation.receives(CALL_LINE + b"message_id:2;aGVsbG8=\n")
    logged = only(FramesReceived, done)
    assert (logged.data, logged.lengths, logged.replies) == (CALL_XML + b"hello", (len(CALL_XML), 5), ())
    assert conversation.says() == []
    conversation.logs(logged.tag)
    assert confirmations(conversation.says()) == [(1, 0), (2, 0)]


def test_what_is_logged_later_is_confirmed_later(conversation: Talk) -> None:
    conversation.slow_log = True
    first = only(FramesReceived, conversation.receives(CALL_LINE))
    second = only(FramesReceived, conversation.receives(b"message_id:2;aGVsbG8=\n"))
    conversation.logs(second.tag)
    assert confirmations(conversation.says()) == [(2, 0)]
    conversation.logs(first.tag)
    assert confirmations(conversation.says()) == [(1, 0)]


def test_a_message_transport_needs_no_newline_and_gives_none() -> None:
    conversation = talk(message_transport=True)
    logged = only(FramesReceived, conversation.receives(CALL_LINE[:-1]))
    assert logged.data == CALL_XML
    conversation.logs(logged.tag)
    assert conversation.session.data_to_send() == [b"result:0;message_id:1;"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_message_may_end_as_a_line_does(end: bytes) -> None:
    conversation = talk(message_transport=True)
    assert only(FramesReceived, conversation.receives(CALL_LINE[:-1] + end)).data == CALL_XML


def test_each_piece_is_a_message_of_its_own_on_a_message_transport() -> None:
    conversation = talk(message_transport=True)
    conversation.delivers(delivery(bytes(PIECE_CHARACTERS)))
    assert len(conversation.session.data_to_send()) == 2


def padded(size: int, message_id: int = 3) -> bytes:
    """A line of `size` bytes before its newline."""
    head = b"message_id:%d;" % message_id
    return head + b"A" * (size - len(head))


@pytest.mark.parametrize("message_transport", [False, True])
def test_a_line_may_be_as_long_as_the_limit(message_transport: bool) -> None:
    end = b"" if message_transport else b"\n"
    conversation = talk(message_transport=message_transport)
    conversation.receives(padded(LINE_BYTES) + end)
    assert Reason.TOO_LARGE not in refused(conversation)
    conversation.sends()
    conversation.receives(padded(LINE_BYTES + 1) + end)
    assert refused(conversation)[-1:] == [Reason.TOO_LARGE]
    assert conversation.says() == [b"result:3;message_id:3;"]
    assert conversation.ended is None


@pytest.mark.parametrize("step", [1000, LINE_BYTES, 10 * LINE_BYTES])
def test_a_line_too_long_is_answered_at_once_and_skipped_to_its_end(step: int, conversation: Talk) -> None:
    line = padded(3 * LINE_BYTES) + b"\n"
    for at in range(0, len(line), step):
        conversation.receives(line[at : at + step])
        assert len(conversation.session._buffer) <= LINE_BYTES
    assert conversation.says() == [b"result:3;message_id:3;"]
    assert refused(conversation) == [Reason.TOO_LARGE]
    conversation.receives(CALL_LINE)
    assert received(conversation) == [CALL_XML]


def test_a_line_too_long_is_answered_wherever_in_a_read_it_begins(conversation: Talk) -> None:
    conversation.log(conversation.receives(CALL_LINE + padded(LINE_BYTES + 1) + b"\n"))
    assert confirmations(conversation.says()) == [(3, 3), (1, 0)]
    conversation.log(conversation.receives(b"message_id:2;aGVsbG8=\n" + padded(LINE_BYTES + 1, message_id=4)))
    assert (4, 3) in confirmations(conversation.says())


def test_a_line_too_long_hears_first_what_its_metadata_lacks(conversation: Talk) -> None:
    conversation.receives(b"gzip:abc;" + padded(LINE_BYTES + 1) + b"\n")
    assert conversation.says() == [b"result:5;message_id:3;"]


@pytest.mark.parametrize("head", [b"A", b"result:0;message_id:7;", b"message_id:", b"no colon;"])
def test_a_line_too_long_without_an_id_in_its_head_is_answered_to_nobody(head: bytes, conversation: Talk) -> None:
    conversation.receives(head + b"A" * LINE_BYTES + b"\n" + CALL_LINE)
    assert refused(conversation) == [Reason.TOO_LARGE]
    assert conversation.says() == []
    assert received(conversation) == [CALL_XML]


def test_a_line_without_an_end_ends_the_session() -> None:
    conversation = talk(frame_bytes=4 * LINE_BYTES)
    for _ in range(4):
        conversation.receives(b"A" * LINE_BYTES)
    assert conversation.ended is None
    conversation.receives(b"A")
    assert conversation.ended == "too_large"


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([CALL_LINE, b"\n", b"message_id:2;", b"\x00"]), max_size=10))
def test_any_bytes_are_taken_without_an_exception_and_a_good_line_after_them_too(chunks: list[bytes]) -> None:
    conversation = talk()
    for chunk in chunks:
        conversation.log(conversation.receives(chunk))
    conversation.log(conversation.receives(b"\nmessage_id:4000000000;aGVsbG8=\n"))
    assert received(conversation)[-1].endswith(b"hello")
    assert conversation.ended is None

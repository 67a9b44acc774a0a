"""Layer 1 in the session: lines, confirmations, repeats, retransmission, and what a peer may make us hold."""

from __future__ import annotations

import gzip
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.event import Kind
from gateway.protocols.session import (
    Delivered,
    FrameRefused,
    FramesReceived,
    Outcome,
    RequestsAbandoned,
)
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.fragments import EXPIRY_SECONDS, MAX_OPEN_SETS
from gateway.protocols.wolpertinger.frames import LINE_BYTES, PIECE_CHARACTERS, Response
from gateway.protocols.wolpertinger.receipts import MAX_UNCONFIRMED, Sent
from gateway.reasons import Reason
from tests.unit.contract.conversation import asked_by, delivery, only
from tests.unit.wolpertinger.talk import CALL_ID, VECTOR_CIPHER, Talk, call, confirmations, talk, text

CALL = encode(call("Core", "testMethod1", text("a")))
CALL_LINE = b"message_id:1;" + b64encode(CALL) + b"\n"
ANSWER = encode(Response("Core", CALL_ID))


def received(conversation: Talk) -> list[bytes]:
    return [action.data for action in conversation.said if isinstance(action, FramesReceived)]


def refused(conversation: Talk) -> list[Reason]:
    return [action.reason for action in conversation.said if isinstance(action, FrameRefused)]


# -- lines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_is_a_message_and_blank_lines_are_none(end: bytes) -> None:
    conversation = talk()
    done = conversation.receives(end + CALL_LINE[:-1] + end + end)
    assert only(FramesReceived, done).data == CALL
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


def encrypted_talk() -> Talk:
    conversation = talk()
    conversation.session.cipher = VECTOR_CIPHER
    return conversation


@pytest.mark.parametrize(("messages", "payload", "confirmation"), VECTORS)
def test_a_vector_is_read_whole(messages: tuple[bytes, ...], payload: bytes, confirmation: bytes) -> None:
    conversation = encrypted_talk()
    said = conversation.hears(b"\n".join(messages))
    assert received(conversation) == [payload]
    assert said[0] == confirmation


@pytest.mark.parametrize(("messages", "payload", "confirmation"), VECTORS)
def test_a_vector_is_read_one_byte_at_a_time(messages: tuple[bytes, ...], payload: bytes, confirmation: bytes) -> None:
    conversation = encrypted_talk()
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
    conversation = encrypted_talk()
    conversation.log(conversation.receives(b"\n".join(messages) + b"\nmessage_id:2;YWdh"))
    assert received(conversation) == [payload]
    assert conversation.says()[0] == confirmation
    conversation.receives(b"aW4=\n")
    assert received(conversation) == [payload, b"again"]


def test_messages_of_one_read_are_logged_together_and_confirmed_in_order() -> None:
    conversation = talk()
    conversation.slow_log = True
    done = conversation.receives(CALL_LINE + b"message_id:2;aGVsbG8=\n")
    logged = only(FramesReceived, done)
    assert (logged.data, logged.lengths, logged.replies) == (CALL + b"hello", (len(CALL), 5), ())
    assert conversation.says() == []
    conversation.logs(logged.tag)
    assert confirmations(conversation.says()) == [(1, 0), (2, 0)]


def test_what_is_logged_later_is_confirmed_later() -> None:
    conversation = talk()
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
    assert logged.data == CALL
    conversation.logs(logged.tag)
    assert conversation.session.data_to_send() == [b"result:0;message_id:1;"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_message_may_end_as_a_line_does(end: bytes) -> None:
    conversation = talk(message_transport=True)
    assert only(FramesReceived, conversation.receives(CALL_LINE[:-1] + end)).data == CALL


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
def test_a_line_too_long_is_answered_at_once_and_skipped_to_its_end(step: int) -> None:
    conversation = talk()
    line = padded(3 * LINE_BYTES) + b"\n"
    for at in range(0, len(line), step):
        conversation.receives(line[at : at + step])
        assert len(conversation.session._buffer) <= LINE_BYTES
    assert conversation.says() == [b"result:3;message_id:3;"]
    assert refused(conversation) == [Reason.TOO_LARGE]
    conversation.receives(CALL_LINE)
    assert received(conversation) == [CALL]


def test_a_line_too_long_is_answered_wherever_in_a_read_it_begins() -> None:
    conversation = talk()
    conversation.log(conversation.receives(CALL_LINE + padded(LINE_BYTES + 1) + b"\n"))
    assert confirmations(conversation.says()) == [(3, 3), (1, 0)]
    conversation.log(conversation.receives(b"message_id:2;aGVsbG8=\n" + padded(LINE_BYTES + 1, message_id=4)))
    assert (4, 3) in confirmations(conversation.says())


def test_a_line_too_long_hears_first_what_its_metadata_lacks() -> None:
    conversation = talk()
    conversation.receives(padded(LINE_BYTES + 1, message_id=0) + b"\n")
    assert conversation.says() == [b"result:5;message_id:0;"]


@pytest.mark.parametrize("head", [b"A", b"result:0;message_id:7;", b"message_id:", b"no colon;"])
def test_a_line_too_long_without_an_id_in_its_head_is_answered_to_nobody(head: bytes) -> None:
    conversation = talk()
    conversation.receives(head + b"A" * LINE_BYTES + b"\n" + CALL_LINE)
    assert refused(conversation) == [Reason.TOO_LARGE]
    assert conversation.says() == []
    assert received(conversation) == [CALL]


def test_a_line_without_an_end_ends_the_session() -> None:
    conversation = talk(frame_bytes=4 * LINE_BYTES)
    for _ in range(4):
        conversation.receives(b"A" * LINE_BYTES)
    assert conversation.ended is None
    conversation.receives(b"A")
    assert conversation.ended == "too_large"


# -- confirmations -------------------------------------------------------------------------------------------------

ANSWERED_AT_ONCE = [
    (b"message_id:9;fragment_count:2;fragment_index:2;bG8=", [(9, 3)]),
    (b"message_id:6;gzip:abc;aGVsbG8=", [(6, 5)]),
    (b"message_id:6;aGVsbG8", [(6, 5)]),
    (b"message_id:0;aGVsbG8=", [(0, 5)]),
    (b"message_id:30;encryption:aes;BGjxpSaepyRbuExk1FbpTQ==", [(30, 4)]),
    (b"message_id:1;secure:aes;aGVsbG8=", []),
    (b"aGVsbG8=", []),
]


@pytest.mark.parametrize(("line", "results"), ANSWERED_AT_ONCE)
def test_what_layer_1_refuses_is_counted_and_confirmed_if_it_can_be(
    line: bytes, results: list[tuple[int, int]]
) -> None:
    conversation = talk()
    assert confirmations(conversation.hears(line)) == results
    assert len(refused(conversation)) == 1
    assert received(conversation) == []


def test_a_refused_id_may_be_used_again() -> None:
    conversation = talk()
    conversation.hears(b"message_id:1;aGVsbG8")
    conversation.hears(CALL_LINE[:-1])
    assert received(conversation) == [CALL]


@pytest.mark.parametrize("line", [b"result:0;message_id:7;", b"result:5;message_id:0;", b"result:9;message_id:1;"])
def test_a_confirmation_is_never_confirmed(line: bytes) -> None:
    conversation = talk()
    assert conversation.hears(line) == []
    assert conversation.said[1:] == []


def test_a_split_message_is_confirmed_once() -> None:
    conversation = talk()
    assert conversation.hears(b"message_id:8;fragment_count:2;fragment_index:1;bG8=") == []
    said = conversation.hears(b"message_id:8;fragment_count:2;fragment_index:0;aGVs")
    assert confirmations(said) == [(8, 0)]
    assert received(conversation) == [b"hello"]


# -- repeats -------------------------------------------------------------------------------------------------------


def test_a_repeat_is_confirmed_again_and_not_delivered_again() -> None:
    conversation = talk()
    assert confirmations(conversation.hears(CALL_LINE[:-1], CALL_LINE[:-1])) == [(1, 0), (1, 0)]
    assert received(conversation) == [CALL]


def test_a_repeat_that_comes_before_the_log_has_the_first_is_confirmed_with_it() -> None:
    conversation = talk()
    conversation.slow_log = True
    first = only(FramesReceived, conversation.receives(CALL_LINE))
    conversation.receives(CALL_LINE)
    assert conversation.says() == []
    conversation.logs(first.tag)
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_a_repeat_in_pieces_is_confirmed_again_once() -> None:
    conversation = talk()
    pieces = [b"message_id:8;fragment_count:2;fragment_index:%d;%s" % piece for piece in enumerate((b"aGVs", b"bG8="))]
    conversation.hears(*pieces)
    assert confirmations(conversation.hears(*pieces)) == [(8, 0)]
    assert received(conversation) == [b"hello"]


def test_an_id_is_new_again_when_no_repeat_can_come_any_more() -> None:
    conversation = talk()
    conversation.hears(CALL_LINE[:-1])
    conversation.waits(EXPIRY_SECONDS)
    conversation.hears(CALL_LINE[:-1])
    assert received(conversation) == [CALL, CALL]


# -- what we send --------------------------------------------------------------------------------------------------


def sends_answer(options: dict[str, Any] | None = None) -> tuple[Talk, list[bytes]]:
    conversation = talk(options)
    conversation.delivers(delivery(ANSWER))
    return conversation, conversation.says()


def test_a_delivery_is_confirmed_by_the_peer() -> None:
    conversation, said = sends_answer()
    assert said == [b"message_id:1;" + b64encode(ANSWER)]
    assert only(Delivered, conversation.receives(b"result:0;message_id:1;\n")).outcome is Outcome.CONFIRMED
    assert conversation.waits(100.0) == []
    assert conversation.says() == []


def test_a_delivery_is_undeliverable_when_the_peer_refuses_it() -> None:
    conversation, _ = sends_answer()
    delivered = only(Delivered, conversation.receives(b"message_id:1;result:4;\n"))
    assert (delivered.outcome, delivered.detail) == (Outcome.UNDELIVERABLE, "refused with result 4")


def test_what_is_not_confirmed_is_sent_three_times_and_then_given_up() -> None:
    conversation, first = sends_answer({"confirm_seconds": 5})
    for _ in range(2):
        assert conversation.waits(4.9) == []
        assert conversation.says() == []
        conversation.waits(0.1)
        assert conversation.says() == first
    delivered = only(Delivered, conversation.waits(5.0))
    assert (delivered.outcome, delivered.detail) == (Outcome.UNDELIVERABLE, "never confirmed")
    assert conversation.says() == []
    assert conversation.ended is None


def test_a_confirmation_between_two_tries_ends_them() -> None:
    conversation, _ = sends_answer()
    conversation.waits(20.0)
    assert only(Delivered, conversation.receives(b"result:0;message_id:1;\n")).outcome is Outcome.CONFIRMED
    assert conversation.receives(b"result:0;message_id:1;\n") == []


def test_a_request_that_is_never_confirmed_is_told_to_who_asked() -> None:
    conversation = talk()
    reply = asked_by()
    stamps = (CALL.index(CALL_ID.encode()),)
    conversation.delivers(delivery(CALL, Kind.REQUEST, stamps=stamps, reply=reply))
    conversation.waits(20.0)
    conversation.waits(20.0)
    done = conversation.waits(20.0)
    assert only(RequestsAbandoned, done).replies == (reply,)
    assert only(Delivered, done).outcome is Outcome.UNDELIVERABLE


def test_what_waits_for_confirmation_when_the_session_ends_is_undeliverable() -> None:
    conversation, _ = sends_answer()
    conversation.session.receive_eof(conversation.now)
    assert only(Delivered, conversation.acts()).outcome is Outcome.UNDELIVERABLE


def test_a_delivery_to_a_session_that_ended_is_undeliverable() -> None:
    conversation = talk()
    conversation.session.receive_eof(conversation.now)
    assert only(Delivered, conversation.delivers(delivery(ANSWER))).outcome is Outcome.UNDELIVERABLE


def test_a_peer_that_confirms_nothing_gets_no_more_than_the_limit() -> None:
    conversation = talk()
    for _ in range(MAX_UNCONFIRMED):
        conversation.session._unconfirmed.add(conversation.session._unconfirmed.next_id(), Sent([b""], None))
    reply = asked_by()
    request = delivery(CALL, Kind.REQUEST, stamps=(CALL.index(CALL_ID.encode()),), reply=reply)
    done = conversation.delivers(request)
    assert only(Delivered, done).outcome is Outcome.UNDELIVERABLE
    assert only(RequestsAbandoned, done).replies == (reply,)
    assert conversation.says() == []


COMPRESSION = [
    ("auto", False, False),
    ("auto", True, True),
    ("always", False, True),
    ("never", True, False),
]


@pytest.mark.parametrize(("option", "peer_compresses", "compresses"), COMPRESSION)
def test_a_large_body_is_compressed_as_the_listener_says(option: str, peer_compresses: bool, compresses: bool) -> None:
    conversation = talk({"compress": option, "compress_over_bytes": len(ANSWER) - 1})
    if peer_compresses:
        data = gzip.compress(CALL)
        conversation.hears(b"message_id:1;gzip:%d;" % len(data) + b64encode(data))
    conversation.delivers(delivery(ANSWER))
    assert [b"gzip:" in line for line in conversation.says() if not line.startswith(b"result")] == [compresses]


def test_a_small_body_is_never_compressed() -> None:
    conversation = talk({"compress": "always", "compress_over_bytes": len(ANSWER)})
    conversation.delivers(delivery(ANSWER))
    assert conversation.says() == [b"message_id:1;" + b64encode(ANSWER)]


# -- what a peer may make us hold ----------------------------------------------------------------------------------


def test_ten_thousand_open_sets_are_refused_beyond_the_bound_and_harm_no_message() -> None:
    conversation = talk()
    opened = 10_000
    lines = [b"message_id:%d;fragment_count:2;fragment_index:0;aGVs" % n for n in range(2, opened + 2)]
    said = confirmations(conversation.hears(*lines))
    assert said == [(n, 3) for n in range(2 + MAX_OPEN_SETS, opened + 2)]
    assert refused(conversation) == [Reason.OVERLOAD] * (opened - MAX_OPEN_SETS)
    conversation.hears(CALL_LINE[:-1], b"message_id:2;fragment_count:2;fragment_index:1;bG8=")
    assert received(conversation) == [CALL, b"hello"]


def test_fragments_that_never_end_expire_and_are_counted() -> None:
    conversation = talk()
    conversation.hears(b"message_id:8;fragment_count:3;fragment_index:0;aGVs")
    conversation.waits(EXPIRY_SECONDS - 0.1)
    assert refused(conversation) == []
    conversation.waits(0.1)
    assert refused(conversation) == [Reason.TIMEOUT]


def test_a_bomb_is_refused_with_its_result() -> None:
    conversation = talk({"decompressed_bytes": 1000})
    bomb = gzip.compress(bytes(1001))
    said = conversation.hears(b"message_id:5;gzip:%d;" % len(bomb) + b64encode(bomb))
    assert confirmations(said) == [(5, 5)]
    assert refused(conversation) == [Reason.BOMB]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([CALL_LINE, b"\n", b"message_id:2;", b"\x00"]), max_size=10))
def test_any_bytes_are_taken_without_an_exception_and_a_good_line_after_them_too(chunks: list[bytes]) -> None:
    conversation = talk()
    for chunk in chunks:
        conversation.log(conversation.receives(chunk))
    conversation.log(conversation.receives(b"\nmessage_id:4000000000;aGVsbG8=\n"))
    assert received(conversation)[-1].endswith(b"hello")
    assert conversation.ended is None

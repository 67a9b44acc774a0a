"""Delivery confirmation in the session: what is confirmed with which result, and what is a repeat."""

from __future__ import annotations

import pytest

from gateway.protocols.actions import FramesReceived
from gateway.protocols.wolpertinger.fragments import EXPIRY_SECONDS
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.wolpertinger.talk import CALL_LINE, CALL_XML, Talk, confirmations, received, refused, talk

ANSWERED_AT_ONCE = [
    (b"message_id:9;fragment_count:2;fragment_index:2;bG8=", [(9, 3)]),
    (b"message_id:6;gzip:abc;aGVsbG8=", [(6, 5)]),
    (b"message_id:6;aGVsbG8", [(6, 5)]),
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


def test_a_counter_may_start_again_at_0(conversation: Talk) -> None:
    said = conversation.hears(b"message_id:4294967295;aGVsbG8=", b"message_id:0;aGVsbG8=", b"result:0;message_id:0;")
    assert confirmations(said) == [(4294967295, 0), (0, 0)]
    assert received(conversation) == [b"hello", b"hello"]


def test_a_refused_id_may_be_used_again(conversation: Talk) -> None:
    conversation.hears(b"message_id:1;aGVsbG8")
    conversation.hears(CALL_LINE[:-1])
    assert received(conversation) == [CALL_XML]


@pytest.mark.parametrize("line", [b"result:0;message_id:7;", b"result:5;message_id:0;", b"result:9;message_id:1;"])
def test_a_confirmation_is_never_confirmed(line: bytes, conversation: Talk) -> None:
    assert conversation.hears(line) == []
    assert conversation.said[1:] == []


def test_a_split_message_is_confirmed_once(conversation: Talk) -> None:
    assert conversation.hears(b"message_id:8;fragment_count:2;fragment_index:1;bG8=") == []
    said = conversation.hears(b"message_id:8;fragment_count:2;fragment_index:0;aGVs")
    assert confirmations(said) == [(8, 0)]
    assert received(conversation) == [b"hello"]


# -- repeats ----------------------------------------------------------------------------------------------------------


def test_a_repeat_is_confirmed_again_and_not_delivered_again(conversation: Talk) -> None:
    assert confirmations(conversation.hears(CALL_LINE[:-1], CALL_LINE[:-1])) == [(1, 0), (1, 0)]
    assert received(conversation) == [CALL_XML]


def test_a_repeat_that_comes_before_the_log_has_the_first_is_confirmed_with_it(conversation: Talk) -> None:
    conversation.slow_log = True
    first = only(FramesReceived, conversation.receives(CALL_LINE))
    conversation.receives(CALL_LINE)
    assert conversation.says() == []
    conversation.logs(first.tag)
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_a_repeat_in_pieces_is_confirmed_again_once(conversation: Talk) -> None:
    pieces = [b"message_id:8;fragment_count:2;fragment_index:%d;%s" % piece for piece in enumerate((b"aGVs", b"bG8="))]
    conversation.hears(*pieces)
    assert confirmations(conversation.hears(*pieces)) == [(8, 0)]
    assert received(conversation) == [b"hello"]


def test_an_id_is_new_again_when_no_repeat_can_come_any_more(conversation: Talk) -> None:
    conversation.hears(CALL_LINE[:-1])
    conversation.waits(EXPIRY_SECONDS)
    conversation.hears(CALL_LINE[:-1])
    assert received(conversation) == [CALL_XML, CALL_XML]

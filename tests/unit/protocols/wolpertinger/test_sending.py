"""Layer 1 of what the session sends: tried again until it is confirmed, given up, compressed."""

from __future__ import annotations

import gzip
from base64 import b64encode
from typing import Any

import pytest

from gateway.core.event import Kind
from gateway.protocols.actions import AbandonRequests, Delivered, Outcome
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import CallResponse
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.receipts import MAX_UNCONFIRMED_BYTES, SENT_BYTES, SentMessage
from tests.unit.protocols.contract.conversation import asked_by, delivery, only
from tests.unit.protocols.wolpertinger.talk import CALL_ID, CALL_XML, Talk, talk

ANSWER = encode(CallResponse("Core", CALL_ID))


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


def test_a_request_that_is_never_confirmed_is_told_to_who_asked(conversation: Talk) -> None:
    reply = asked_by()
    stamps = (CALL_XML.index(CALL_ID.encode()),)
    conversation.delivers(delivery(CALL_XML, Kind.REQUEST, stamps=stamps, reply=reply))
    conversation.waits(20.0)
    conversation.waits(20.0)
    done = conversation.waits(20.0)
    assert only(AbandonRequests, done).replies == (reply,)
    assert only(Delivered, done).outcome is Outcome.UNDELIVERABLE


def test_what_waits_for_confirmation_when_the_session_ends_is_undeliverable() -> None:
    conversation, _ = sends_answer()
    conversation.session.receive_eof()
    assert only(Delivered, conversation.acts()).outcome is Outcome.UNDELIVERABLE


def test_a_delivery_to_a_session_that_ended_is_undeliverable(conversation: Talk) -> None:
    conversation.session.receive_eof()
    assert only(Delivered, conversation.delivers(delivery(ANSWER))).outcome is Outcome.UNDELIVERABLE


def test_a_peer_that_confirms_nothing_gets_no_more_than_the_limit(conversation: Talk) -> None:
    unconfirmed, size = conversation.session._unconfirmed, MAX_UNCONFIRMED_BYTES - SENT_BYTES - 1
    unconfirmed.add(unconfirmed.next_id(), SentMessage([bytes(size)], None))
    conversation.delivers(delivery(ANSWER))
    assert len(conversation.says()) == 1
    assert unconfirmed.full
    reply = asked_by()
    request = delivery(CALL_XML, Kind.REQUEST, stamps=(CALL_XML.index(CALL_ID.encode()),), reply=reply)
    done = conversation.delivers(request)
    assert only(Delivered, done).outcome is Outcome.UNDELIVERABLE
    assert only(AbandonRequests, done).replies == (reply,)
    assert conversation.says() == []


# -- compression ------------------------------------------------------------------------------------------------------


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
        data = gzip.compress(CALL_XML)
        conversation.hears(b"message_id:1;gzip:%d;" % len(data) + b64encode(data))
    conversation.delivers(delivery(ANSWER))
    assert [b"gzip:" in line for line in conversation.says() if not line.startswith(b"result")] == [compresses]


def test_a_small_body_is_never_compressed() -> None:
    conversation = talk({"compress": "always", "compress_over_bytes": len(ANSWER)})
    conversation.delivers(delivery(ANSWER))
    assert conversation.says() == [b"message_id:1;" + b64encode(ANSWER)]


def test_new_options_hold_for_a_session_that_stands() -> None:
    conversation = talk({"compress": "never"})
    for compress, gzipped in (("always", True), ("auto", True), ("never", False), ("auto", False)):
        options = {"compress": compress, "compress_over_bytes": 0}
        conversation.session.reconfigure(WolpertingerOptions.model_validate(options))
        conversation.delivers(delivery(ANSWER))
        (said,) = conversation.says()
        assert (b"gzip:" in said) is gzipped

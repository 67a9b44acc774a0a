"""The end of a session: what breaks its stream, and a drain."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import CloseReason, Delivered, FramesReceived, Outcome
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, delivery, only, received
from tests.unit.protocols.hsp.talk import ORDERS, ack, data, data_ack, hsp


class TestTheEnd:
    @pytest.mark.parametrize(
        ("stream", "reason"),
        [
            (b"\x07", Reason.UNKNOWN_TYPE),
            (b"\xff", Reason.UNKNOWN_TYPE),
            (ack(), Reason.MALFORMED),
            (encode(Frame(Command.ERROR, 1, 2, b"x")), Reason.MALFORMED),
            (encode(Frame(Command.ERROR_UNDEF, 1)), Reason.MALFORMED),
            (bytes.fromhex("00 0011 00000401"), Reason.TOO_LARGE),
            (bytes.fromhex("01 00000001 0011 00000401"), Reason.TOO_LARGE),
            (bytes.fromhex("05 00000001 0011 ffffffff"), Reason.TOO_LARGE),
        ],
    )
    def test_what_breaks_the_stream_ends_it_without_a_word(self, stream: bytes, reason: Reason) -> None:
        talk = hsp(frame_bytes=1024)
        talk.receives(stream)
        assert talk.ended == reason
        assert talk.sends() == b""

    def test_a_payload_at_the_limit_is_taken(self) -> None:
        talk = hsp(frame_bytes=1024)
        stream = data(17, bytes(1024)) + data_ack(1, 17, bytes(1024))
        assert only(FramesReceived, talk.receives(stream)).lengths == (1031, 1035)

    def test_a_stream_that_ends_inside_a_frame_is_truncated(self, talk: Conversation) -> None:
        talk.receives(data()[:-1])
        talk.session.receive_eof()
        assert talk.ended == Reason.TRUNCATED

    def test_a_drain_ends_at_once_when_nothing_is_owed(self, talk: Conversation) -> None:
        talk.session.drain(talk.now)
        assert talk.ended == "drain"
        assert talk.sends() == b""

    def test_a_drain_waits_for_the_acks_that_are_owed_and_takes_in_nothing_more(self) -> None:
        talk = hsp(ORDERS)
        talk.delivers(delivery(data_ack(0), stamps=(1,)))
        talk.sends()
        tag = only(FramesReceived, talk.receives(data_ack(5) + data_ack(4, 7))).tag
        talk.session.drain(talk.now, None, CloseReason.KICKED)
        assert talk.ended is None
        actions = talk.receives(data_ack(6) + ack(1) + b"\x03")
        assert received(actions) == []
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="4"))
        talk.logs(tag)
        assert talk.sends() == b"\x04" + ack(4) + ack(5)
        assert talk.ended == "kicked"

"""Ping-pong: a silent peer is asked whether it is there, and a peer that asks is answered."""

from __future__ import annotations

from gateway.core.reasons import Reason
from gateway.protocols.emp.codec import encode
from gateway.protocols.emp.frames import Message, MessageType
from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.emp.talk import PING, PONG, data, emp, failure


class TestKeepalive:
    def test_a_silent_peer_is_pinged_once_and_ends_with_a_timeout(self) -> None:
        talk = emp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(29)
        assert talk.sends() == b""
        talk.waits(1)
        assert talk.sends() == PING
        talk.receives(data())
        talk.waits(9)
        assert talk.sends() == b""
        talk.waits(1)
        assert failure(talk).code == 2
        assert talk.ended == Reason.TIMEOUT

    def test_a_pong_sets_it_back_and_one_too_many_is_ignored(self) -> None:
        talk = emp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(30)
        assert talk.sends() == PING
        talk.receives(PONG + PONG)
        talk.waits(29)
        assert (talk.sends(), talk.ended) == (b"", None)
        talk.waits(1)
        assert talk.sends() == PING

    def test_bodies_of_ping_pong_and_bye_are_ignored(self, talk: Conversation) -> None:
        talk.receives(encode(Message(MessageType.PING, b"x")) + encode(Message(MessageType.PONG, b"x")))
        assert talk.sends() == PONG
        talk.receives(encode(Message(MessageType.BYE, b"x")))
        assert talk.ended == "bye"

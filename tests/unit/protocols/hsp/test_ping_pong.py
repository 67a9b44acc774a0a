"""PING and PONG in the session: a silent peer is asked whether it is there."""

from __future__ import annotations

from gateway.core.reasons import Reason
from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.hsp.talk import data, hsp


class TestKeepalive:
    def test_a_silent_peer_is_pinged_and_ends_without_an_answer(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(29)
        assert talk.sends() == b""
        talk.waits(1)
        assert talk.sends() == b"\x03"
        talk.waits(9)
        assert talk.ended is None
        talk.waits(1)
        assert talk.ended == Reason.TIMEOUT

    def test_one_ping_at_a_time(self) -> None:
        talk = hsp({"ping_seconds": 5, "pong_timeout_seconds": 60})
        talk.waits(5)
        talk.receives(data())
        talk.waits(5)
        talk.waits(5)
        assert talk.sends() == b"\x03"

    def test_a_pong_sets_it_back(self) -> None:
        talk = hsp({"ping_seconds": 30, "pong_timeout_seconds": 10})
        talk.waits(30)
        talk.receives(b"\x04")
        talk.waits(29)
        assert talk.sends() == b"\x03"
        talk.waits(1)
        assert talk.sends() == b"\x03"

    def test_a_peer_that_speaks_is_not_pinged(self) -> None:
        talk = hsp({"ping_seconds": 30})
        for _ in range(5):
            talk.waits(20)
            talk.receives(data())
        assert talk.sends() == b""

    def test_a_pong_without_a_ping_ends_the_session(self, talk: Conversation) -> None:
        talk.receives(b"\x04")
        assert talk.ended == Reason.MALFORMED

    def test_two_pongs_for_one_ping_end_the_session(self) -> None:
        talk = hsp({"ping_seconds": 30})
        talk.waits(30)
        talk.receives(b"\x04\x04")
        assert talk.ended == Reason.MALFORMED

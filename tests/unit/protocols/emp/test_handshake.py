"""The handshake: a hello each way, and what else a peer may say first."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason
from gateway.protocols.actions import Delivered, FramesReceived, Opened, Outcome, Terminated
from gateway.protocols.emp.codec import encode, encode_error, encode_hello
from gateway.protocols.emp.frames import Failure, Message, MessageType
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.emp.session import EmpSession
from gateway.protocols.session_settings import SessionSettings
from tests.unit.protocols.contract.conversation import delivery, only
from tests.unit.protocols.emp.talk import BYE, HELLO, PING, PONG, data, failure, greeting, request


class TestHandshake:
    def test_both_say_hello_at_once_and_the_session_opens_with_the_peers(self) -> None:
        talk = greeting()
        assert talk.sends() == HELLO
        assert talk.acts() == []
        assert talk.receives(HELLO) == [Opened()]
        assert talk.sends() == b""

    def test_a_session_asks_its_options_for_no_type_that_another_has_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options, settings = EmpOptions(), SessionSettings(token=bytes)
        EmpSession(settings, options)
        monkeypatch.setattr(EmpOptions, "subject_of", None)
        EmpSession(settings, options)

    @pytest.mark.parametrize("version", [2, 255])
    def test_a_higher_version_means_that_both_speak_ours(self, version: int) -> None:
        assert greeting().receives(encode_hello(version)) == [Opened()]

    def test_version_0_is_closed_without_a_word(self) -> None:
        talk = greeting()
        talk.sends()
        assert talk.receives(encode_hello(0) + data()) == [Terminated(Reason.UNSUPPORTED_VERSION, "version 0")]
        assert talk.sends() == b""

    @pytest.mark.parametrize("first", [PING, PONG, data(), data(type_=128), request()])
    def test_anything_else_first_is_an_error_of_the_protocol(self, first: bytes) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(first + HELLO)
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    @pytest.mark.parametrize("block", ["00000008 07000000", "00000007 01000000", "0000000c 01000000 02000000"])
    def test_so_is_one_whose_blocks_are_bad_too(self, block: str) -> None:
        talk = greeting()
        talk.sends()
        content = bytes.fromhex(block)
        talk.receives((8 + len(content)).to_bytes(4, "big") + bytes.fromhex("05800000") + content)
        assert failure(talk) == Failure(3, "data does not belong here")

    @pytest.mark.parametrize(
        ("first", "reason"), [(BYE, "bye"), (encode_error(Failure(0, "no")), "peer_error")], ids=["bye", "error"]
    )
    def test_a_peer_that_will_not_ends_it(self, first: bytes, reason: str) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(first)
        assert (talk.ended, talk.sends()) == (reason, b"")

    @pytest.mark.parametrize("body", [b"", b"\x01\x00\x00", b"\x01\x00\x00\x00\x00"])
    def test_a_hello_of_another_size_is_an_error_of_the_protocol(self, body: bytes) -> None:
        talk = greeting()
        talk.sends()
        talk.receives(encode(Message(MessageType.HELLO, body)))
        assert failure(talk).code == 3

    def test_no_hello_in_time_is_a_timeout(self) -> None:
        talk = greeting(handshake_seconds=5)
        talk.sends()
        talk.waits(4.9)
        assert talk.ended is None
        talk.waits(0.1)
        assert failure(talk).code == 2
        assert talk.ended == Reason.TIMEOUT

    def test_data_may_follow_hello_in_one_read(self) -> None:
        actions = greeting().receives(HELLO + data())
        assert [type(action) for action in actions] == [Opened, FramesReceived]

    def test_nothing_is_delivered_before_it(self) -> None:
        talk = greeting()
        talk.sends()
        assert only(Delivered, talk.delivers(delivery(data()))).outcome is Outcome.UNDELIVERABLE
        assert talk.sends() == b""

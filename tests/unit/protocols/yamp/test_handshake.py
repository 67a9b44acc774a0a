"""Tests how a session begins, as listener and dialled, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.protocols.actions import Delivered, FramesReceived, Opened, Outcome, Terminated
from gateway.protocols.yamp.codec import decode, encode
from gateway.protocols.yamp.frames import Close, Format, Handshake, Response
from gateway.protocols.yamp.options import YampOptions
from gateway.protocols.yamp.session import YampSession
from gateway.protocols.yamp.states import TRANSITIONS, YampState
from tests.unit.protocols.contract.conversation import Conversation, delivery, only, settings

from .vectors import EVENT, FRAMES, HANDSHAKE_JSON, HANDSHAKE_MSGPACK, REQUEST, frame


def talk(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    return Conversation(YampSession(settings(**changes), YampOptions.model_validate(options or {})))


def close_reason(conversation: Conversation) -> str:
    """The reason in the last thing said, which must be a close frame."""
    said = decode(conversation.session.data_to_send()[-1])
    assert isinstance(said, Close)
    return said.reason


class TestAListener:
    @pytest.mark.parametrize(("handshake", "format_"), [(HANDSHAKE_JSON, "json"), (HANDSHAKE_MSGPACK, "msgpack")])
    def test_echoes_the_handshake_and_opens(self, handshake: bytes, format_: str) -> None:
        conversation = talk()
        assert only(Opened, conversation.receives(handshake)).facts == {"format": format_}
        assert conversation.sends() == handshake

    def test_says_nothing_before_the_handshake(self) -> None:
        assert talk().sends() == b""

    def test_takes_the_handshake_byte_by_byte(self) -> None:
        conversation = talk()
        for byte in HANDSHAKE_JSON[:-1]:
            assert conversation.receives(bytes([byte])) == []
        assert only(Opened, conversation.receives(HANDSHAKE_JSON[-1:])).facts == {"format": "json"}

    def test_takes_frames_right_behind_the_handshake(self) -> None:
        received = only(FramesReceived, talk().receives(HANDSHAKE_JSON + EVENT + EVENT))
        assert (received.data, received.lengths) == (EVENT + EVENT, (len(EVENT), len(EVENT)))

    @pytest.mark.parametrize("version", ["0000", "0002", "ffff"])
    def test_refuses_another_version(self, version: str) -> None:
        conversation = talk()
        conversation.receives(frame(f"00 {version} 04 6a736f6e"))
        assert "version" in close_reason(conversation)
        assert conversation.ended == "unsupported_version"

    @pytest.mark.parametrize("serializer", ["bson", "JSON", "Msgpack", ""])
    def test_refuses_another_serializer_and_names_those_it_speaks(self, serializer: str) -> None:
        conversation = talk()
        conversation.receives(encode(Handshake(serializer)))
        assert close_reason(conversation).endswith("these are: json, msgpack")
        assert conversation.ended == "bad_encoding"

    def test_speaks_only_the_formats_it_is_told(self) -> None:
        conversation = talk({"formats": ["msgpack"]})
        conversation.receives(HANDSHAKE_JSON)
        assert close_reason(conversation).endswith("these are: msgpack")

    def test_takes_a_handshake_without_a_serializer_where_it_is_told_what_that_means(self) -> None:
        conversation = talk({"unnamed_format": "json"})
        assert only(Opened, conversation.receives(frame("00 0001 00"))).facts == {"format": "json"}
        assert conversation.sends() == frame("00 0001 00")

    def test_refuses_a_second_handshake(self) -> None:
        conversation = talk()
        conversation.receives(HANDSHAKE_JSON + EVENT + HANDSHAKE_JSON)
        assert close_reason(conversation) == "malformed: a frame HANDSHAKE after the handshake"
        assert only(FramesReceived, conversation.said).data == EVENT

    def test_refuses_what_belongs_after_the_handshake_by_its_first_byte(self) -> None:
        conversation = talk()
        conversation.receives(REQUEST[:1])
        assert close_reason(conversation) == "malformed: a frame REQUEST before the handshake"

    def test_refuses_what_is_no_yamp_by_its_first_byte(self) -> None:
        conversation = talk()
        conversation.receives(b"GET / HTTP/1.1\r\n")
        assert close_reason(conversation) == "unknown_type: unknown frame type 0x47"

    def test_waits_for_a_handshake_as_long_as_it_is_told(self) -> None:
        conversation = talk(handshake_seconds=5.0)
        assert conversation.waits(4.9) == []
        conversation.waits(0.1)
        assert conversation.ended == "timeout"
        assert close_reason(conversation) == "timeout: no handshake in time"

    def test_takes_nothing_more_once_it_has_refused(self) -> None:
        conversation = talk()
        conversation.receives(EVENT)
        conversation.sends()
        assert conversation.receives(HANDSHAKE_JSON) == []
        assert conversation.sends() == b""


class TestADialledSession:
    def test_speaks_first_with_its_first_format(self) -> None:
        assert talk({"formats": ["msgpack", "json"]}, dialled=True).sends() == HANDSHAKE_MSGPACK

    def test_opens_with_the_echo(self) -> None:
        conversation = talk(dialled=True)
        assert only(Opened, conversation.receives(HANDSHAKE_JSON)).facts == {"format": "json"}
        assert conversation.sends() == HANDSHAKE_JSON

    def test_closes_when_the_echo_differs(self) -> None:
        conversation = talk(dialled=True)
        conversation.receives(HANDSHAKE_MSGPACK)
        assert close_reason(conversation) == "malformed: the echo of the handshake differs"

    def test_delivers_nothing_before_the_echo(self) -> None:
        conversation = talk(dialled=True)
        conversation.sends()
        assert only(Delivered, conversation.delivers(delivery(EVENT))).outcome is Outcome.UNDELIVERABLE
        assert conversation.sends() == b""

    def test_hears_why_it_is_refused(self) -> None:
        conversation = talk(dialled=True)
        ended = only(Terminated, conversation.receives(encode(Close("version 1 is too old"))))
        assert (ended.reason, ended.detail) == ("peer_error", "version 1 is too old")

    def test_hears_where_it_is_sent_instead(self) -> None:
        redirect, _ = FRAMES["close-redirect"]
        ended = only(Terminated, talk(dialled=True).receives(redirect))
        assert (ended.reason, ended.detail) == ("redirect", "tcp://192.168.0.42:5000")

    def test_waits_for_the_echo_no_longer_than_told(self) -> None:
        conversation = talk(dialled=True)
        conversation.waits(5.0)
        assert conversation.ended == "timeout"


def arrive(state: YampState) -> Conversation:
    """A conversation in that state, with nothing unread."""
    conversation = talk(dialled=state is YampState.AWAITING_ECHO)
    if state in {YampState.OPEN, YampState.ENDED}:
        conversation.receives(HANDSHAKE_JSON)
    if state is YampState.ENDED:
        conversation.receives(encode(Close()))
    conversation.sends()
    return conversation


@pytest.mark.parametrize("state", YampState)
@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_in_every_state_leads_where_the_table_says(state: YampState, name: str) -> None:
    data, said = FRAMES[name]
    if isinstance(said, Handshake) and said.serializer != "json":
        data = HANDSHAKE_JSON
    conversation = arrive(state)
    conversation.receives(data)
    session = conversation.session
    assert isinstance(session, YampSession)
    assert session.state is TRANSITIONS[state].get(said.type, YampState.ENDED)
    refused = said.type not in TRANSITIONS[state] and state is not YampState.ENDED
    said_close = [isinstance(decode(one), Close) for one in session.data_to_send()]
    assert any(said_close) is refused


def test_a_link_offers_the_preferred_format_and_a_listener_needs_one() -> None:
    assert YampOptions().formats == (Format.JSON, Format.MSGPACK)
    with pytest.raises(ValidationError) as refused:
        YampOptions.model_validate({"formats": []})
    assert "formats" in str(refused.value)


def test_an_answer_from_the_session_itself_is_in_the_format_of_the_handshake() -> None:
    conversation = talk(request_timeout_seconds=1.0)
    conversation.receives(HANDSHAKE_MSGPACK + frame("06 02*16 03 73756d 00 00000000"))
    conversation.sends()
    conversation.waits(1.0)
    said = decode(conversation.sends())
    assert isinstance(said, Response)
    assert said.body == b"\x82\xa4code\xa7timeout\xa7message\xb1no answer in time"

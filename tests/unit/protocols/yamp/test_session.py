"""An open session: events, pings, the end, and bad input that must say what was wrong."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gateway.core.event import Kind
from gateway.protocols.actions import AbandonRequests, CloseReason, Delivered, FramesReceived, Outcome, Terminated
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close, Ping, Pong, UserEvent
from gateway.protocols.yamp.session import SHOWN_REASON_CHARACTERS
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, token

from .test_handshake import close_reason, talk
from .vectors import CANCEL, DONE, EVENT, HANDSHAKE_JSON, HANDSHAKE_MSGPACK, REQUEST, frame, uid

PING = encode(Ping(token(8).hex().encode()))
PONG = encode(Pong(token(8).hex().encode()))
STREAM = HANDSHAKE_JSON + EVENT + REQUEST + CANCEL + EVENT


def opened(options: dict[str, Any] | None = None, handshake: bytes = HANDSHAKE_JSON, **changes: Any) -> Conversation:
    conversation = talk(options, **changes)
    conversation.receives(handshake)
    conversation.sends()
    conversation.said.clear()
    return conversation


@pytest.fixture
def conversation() -> Conversation:
    return opened()


class TestEvents:
    def test_the_events_of_one_read_go_to_the_log_together(self) -> None:
        received = only(FramesReceived, opened().receives(EVENT * 3 + EVENT[:9]))
        assert (received.data, received.lengths) == (EVENT * 3, (len(EVENT),) * 3)
        assert (received.tag, received.replies) == (None, ())

    def test_an_event_may_come_byte_by_byte(self, conversation: Conversation) -> None:
        for byte in EVENT:
            conversation.receives(bytes([byte]))
        assert only(FramesReceived, conversation.said).data == EVENT

    @given(st.lists(st.integers(0, len(STREAM)), max_size=30).map(sorted))
    @hypothesis_settings(max_examples=60, deadline=None)
    def test_however_a_stream_is_cut_the_same_frames_come_out(self, cuts: list[int]) -> None:
        """A WebSocket peer may send each field as a message of its own, empty ones included."""
        conversation = talk()
        for start, end in pairwise([0, *cuts, len(STREAM)]):
            conversation.receives(STREAM[start:end])
        received = [action for action in conversation.said if isinstance(action, FramesReceived)]
        assert b"".join(one.data for one in received) == EVENT + REQUEST + CANCEL + EVENT
        lengths = [length for one in received for length in one.lengths]
        assert lengths == [len(EVENT), len(REQUEST), len(CANCEL), len(EVENT)]

    def test_an_event_is_delivered_as_the_router_wrote_it(self, conversation: Conversation) -> None:
        assert only(Delivered, conversation.delivers(delivery(EVENT))).outcome is Outcome.WRITTEN
        assert conversation.sends() == EVENT

    def test_each_delivery_is_one_piece_to_send(self, conversation: Conversation) -> None:
        """So that over WebSocket each frame is one message."""
        conversation.delivers(delivery(EVENT))
        conversation.delivers(delivery(EVENT))
        assert conversation.session.data_to_send() == [EVENT, EVENT]

    def test_a_frame_may_be_as_long_as_the_limit_says(self) -> None:
        conversation = opened(frame_bytes=len(EVENT))
        assert only(FramesReceived, conversation.receives(EVENT)).data == EVENT
        conversation.receives(encode(UserEvent(uid(1), "foo", b'{"a":10}')))
        assert conversation.ended == "too_large"
        assert close_reason(conversation) == f"too_large: a frame of {len(EVENT) + 1} bytes, at most {len(EVENT)}"


class TestKeepalive:
    def test_a_ping_is_answered_with_its_own_payload(self, conversation: Conversation) -> None:
        conversation.receives(frame("01 03 616263") + frame("01 00"))
        assert conversation.session.data_to_send() == [frame("02 03 616263"), frame("02 00")]

    def test_an_idle_peer_is_pinged_with_a_text_that_any_peer_can_decode(self) -> None:
        conversation = opened({"ping_seconds": 7})
        conversation.waits(6.9)
        assert conversation.sends() == b""
        conversation.waits(0.1)
        assert conversation.sends() == PING

    def test_a_peer_that_talks_is_not_pinged(self, conversation: Conversation) -> None:
        for _ in range(5):
            conversation.waits(29)
            conversation.receives(EVENT)
        assert conversation.sends() == b""

    def test_the_pong_keeps_the_session(self, conversation: Conversation) -> None:
        conversation.waits(30)
        conversation.receives(PONG)
        conversation.waits(29)
        assert conversation.ended is None
        conversation.sends()
        conversation.waits(1)
        assert conversation.sends() == PING

    def test_a_peer_that_never_answers_a_ping_is_closed(self) -> None:
        conversation = opened({"pong_timeout_seconds": 3})
        conversation.waits(30)
        conversation.receives(EVENT)
        conversation.waits(2.9)
        assert conversation.ended is None
        conversation.waits(0.1)
        assert conversation.ended == "timeout"
        assert close_reason(conversation) == "timeout: no pong in time"

    @pytest.mark.parametrize("payload", [b"", b"other", "\ufffd".encode() * 8])
    def test_a_pong_with_another_payload_answers_no_ping(self, payload: bytes) -> None:
        """The text: "corresponding `system.pong` message from another party with the same payload"."""
        conversation = opened({"pong_timeout_seconds": 3})
        conversation.waits(30)
        conversation.receives(encode(Pong(payload)))
        conversation.waits(3)
        assert close_reason(conversation) == "timeout: no pong in time"

    def test_a_pong_that_nobody_asked_for_is_ignored(self, conversation: Conversation) -> None:
        assert conversation.receives(PONG) == []
        assert conversation.ended is None


BAD = {
    "an unknown frame type": (frame("09"), "unknown_type: unknown frame type 0x09"),
    "a wrong boolean": (
        frame("06 02*16 03 73756d 02 00000000"),
        "malformed: progressive is 0x02, neither 00 nor 01",
    ),
    "a uri that is not UTF-8": (frame("05 01*16 01 ff 00000000"), "bad_encoding: a uri that is not UTF-8"),
    "an event without a uri": (frame("05 01*16 00 00000000"), "missing_field: an event without a uri"),
    "a body beyond the limit": (
        frame("05 01*16 01 61 ffffffff"),
        "too_large: a frame of 4294967318 bytes, at most 1048576",
    ),
    "an event's body that is no JSON": (
        frame("05 01*16 01 61 00000001 7b"),
        "bad_encoding: not JSON: Input data was truncated",
    ),
    "a response's body that is no JSON": (
        frame("08 01*16 01 61 02*16 00 00000001 ff"),
        "bad_encoding: not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
    "an unknown response type": (
        frame("08 01*16 01 61 02*16 04 00000000"),
        "unknown_type: unknown response type 0x04",
    ),
}


class TestBadInput:
    @pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
    def test_ends_the_session_with_what_was_wrong(self, data: bytes, reason: str, conversation: Conversation) -> None:
        conversation.receives(data)
        assert close_reason(conversation) == reason
        assert conversation.ended == reason.partition(":")[0]

    @pytest.mark.parametrize("data", [data for data, _ in BAD.values()], ids=BAD)
    def test_does_not_undo_what_came_before_it(self, data: bytes) -> None:
        actions = opened().receives(EVENT + data + EVENT)
        assert [type(action) for action in actions] == [FramesReceived, Terminated]
        assert only(FramesReceived, actions).data == EVENT

    def test_a_body_must_be_what_the_handshake_agreed_on(self) -> None:
        conversation = opened(handshake=HANDSHAKE_MSGPACK)
        conversation.receives(EVENT)
        assert close_reason(conversation) == "bad_encoding: not msgpack: ExtraData"

    def test_no_body_is_legal_in_either_format(self) -> None:
        for handshake in (HANDSHAKE_JSON, HANDSHAKE_MSGPACK):
            empty = frame("05 01*16 03 666f6f 00000000")
            assert only(FramesReceived, opened(handshake=handshake).receives(empty)).data == empty

    @given(st.binary(max_size=200))
    @hypothesis_settings(max_examples=150, deadline=None)
    def test_any_bytes_leave_a_session_that_goes_on_or_has_said_why_not(self, data: bytes) -> None:
        conversation = opened()
        conversation.receives(data)
        if conversation.ended is None:
            assert only(Delivered, conversation.delivers(delivery(EVENT))).outcome is Outcome.WRITTEN
        elif conversation.ended not in {"bye", "redirect"}:
            assert close_reason(conversation).startswith(conversation.ended)


class TestTheEnd:
    def test_a_close_from_the_peer_ends_the_session_after_what_came_before_it(self) -> None:
        actions = opened().receives(EVENT + frame("03 0003 627965") + EVENT)
        assert only(FramesReceived, actions).data == EVENT
        assert actions[-1] == Terminated("bye", "bye")

    def test_a_redirect_from_the_peer_names_where_to(self) -> None:
        assert opened().receives(frame("04 0004 77733a2f"))[-1] == Terminated("redirect", "ws:/")

    def test_of_a_long_farewell_only_the_beginning_is_kept(self) -> None:
        ended = only(Terminated, opened().receives(encode(Close("a" * 60_000))))
        assert ended.detail == "a" * SHOWN_REASON_CHARACTERS

    @pytest.mark.parametrize(
        ("why", "said"),
        [
            (CloseReason.DRAIN, "shutting down"),
            (CloseReason.KICKED, "kicked: an operator has ended this session"),
            (CloseReason.IDLE, "idle: nothing has come for too long"),
            (CloseReason.OVERLOAD, "overload: there are too many connections"),
            (CloseReason.NOT_LOGGED, "not_logged: what was sent could not be kept"),
            (CloseReason.INTERNAL, "internal: a fault of the mesh"),
        ],
    )
    def test_a_goodbye_says_why(self, why: CloseReason, said: str, conversation: Conversation) -> None:
        conversation.session.drain(conversation.now, None, why)
        assert close_reason(conversation) == said
        assert conversation.ended == why

    def test_draining_names_another_edge_where_there_is_one(self, conversation: Conversation) -> None:
        conversation.session.drain(conversation.now, "tcp://192.168.0.42:5000")
        assert conversation.sends() == frame("04 0017 7463703a2f2f3139322e3136382e302e34323a35303030")
        assert conversation.ended == "drain"

    def test_a_peer_that_we_dialled_is_not_sent_elsewhere(self) -> None:
        conversation = opened(dialled=True)
        conversation.session.drain(conversation.now, "tcp://192.168.0.42:5000")
        assert close_reason(conversation) == "shutting down"

    def test_draining_twice_says_it_once(self, conversation: Conversation) -> None:
        conversation.session.drain(conversation.now)
        conversation.session.drain(conversation.now)
        assert len(conversation.session.data_to_send()) == 1

    def test_the_peers_end_of_stream_ends_the_session(self, conversation: Conversation) -> None:
        conversation.session.receive_eof()
        assert conversation.ended == "eof"
        assert conversation.sends() == b""

    def test_what_is_delivered_after_the_end_is_undeliverable(self, conversation: Conversation) -> None:
        conversation.receives(encode(Close()))
        for kind in Kind:
            late = delivery(EVENT, kind, reply=asked_by(), request="02" * 16)
            assert only(Delivered, conversation.delivers(late)).outcome is Outcome.UNDELIVERABLE

    def test_requests_that_the_peer_can_no_longer_answer_are_told(self, conversation: Conversation) -> None:
        conversation.delivers(delivery(REQUEST, Kind.REQUEST, reply=asked_by()))
        assert only(AbandonRequests, conversation.receives(encode(Close()))).replies == (asked_by(),)

    def test_requests_that_the_peer_has_answered_are_not(self, conversation: Conversation) -> None:
        conversation.delivers(delivery(REQUEST, Kind.REQUEST, reply=asked_by()))
        actions = conversation.receives(DONE + encode(Close()))
        assert [type(action) for action in actions] == [FramesReceived, Terminated]

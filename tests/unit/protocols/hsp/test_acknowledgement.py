"""ACK and ERROR in the session: when a DATA_ACK of the peer is acknowledged, and when it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.core.event import Kind
from gateway.protocols.actions import FramesReceived
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, delivery, only, received
from tests.unit.protocols.hsp.talk import ORDERS, ack, data, data_ack, enveloped, error, frames, hsp


class TestAcknowledgement:
    def test_an_ack_leaves_when_the_frame_is_logged_and_not_before(self, talk: Conversation) -> None:
        tag = only(FramesReceived, talk.receives(data_ack(5) + data() + data_ack(6))).tag
        assert talk.sends() == b""
        talk.logs(tag)
        assert talk.sends() == ack(5) + ack(6)

    def test_each_run_is_acknowledged_on_its_own_in_any_order(self, talk: Conversation) -> None:
        first = only(FramesReceived, talk.receives(data_ack(5))).tag
        second = only(FramesReceived, talk.receives(data_ack(6))).tag
        talk.logs(second)
        assert talk.sends() == ack(6)
        talk.logs(first)
        assert talk.sends() == ack(5)

    def test_pings_are_answered_while_a_data_ack_waits(self, talk: Conversation) -> None:
        talk.receives(data_ack() + b"\x03\x03")
        assert talk.sends() == b"\x04\x04"

    def test_nothing_is_acknowledged_after_the_end(self, talk: Conversation) -> None:
        tag = only(FramesReceived, talk.receives(data_ack())).tag
        talk.receives(b"\x07")
        talk.logs(tag)
        assert talk.sends() == b""

    @pytest.mark.parametrize("types", [{}, {17: "temp.high"}, {17: {"subject": "temp.high", "kind": "event"}}])
    def test_with_ack_delivered_the_router_says_when(self, types: dict[int, Any]) -> None:
        talk = hsp({"ack": "delivered", "types": types})
        assert only(FramesReceived, talk.receives(data_ack(5))).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.sends() == ack(5)

    def test_with_ack_delivered_an_envelope_changes_nothing(self) -> None:
        talk = hsp({"ack": "delivered"})
        for message_id in (5, 6):
            raw = data_ack(message_id, ENVELOPE_TYPE, enveloped(Kind.EVENT))
            assert only(FramesReceived, talk.receives(raw)).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="6"))
        assert talk.sends() == ack(6)

    @pytest.mark.parametrize("ack_", ["durable", "answered"])
    def test_an_enveloped_event_is_acknowledged_when_it_is_logged_for_nobody_answers_it(self, ack_: str) -> None:
        talk = hsp({"ack": ack_})
        for message_id in (5, 6):
            raw = data_ack(message_id, ENVELOPE_TYPE, enveloped(Kind.EVENT))
            talk.logs(only(FramesReceived, talk.receives(raw)).tag)
            assert talk.sends() == ack(message_id)

    def test_with_ack_delivered_silence_is_an_error(self) -> None:
        talk = hsp({"ack": "delivered"}, request_timeout_seconds=5)
        talk.receives(data_ack(5))
        talk.waits(5)
        assert talk.sends() == error(5, "timeout", "no answer in time")

    @pytest.mark.parametrize("payload", [enveloped(Kind.EVENT), enveloped(Kind.CANCEL, 9)], ids=["event", "cancel"])
    def test_what_the_envelope_names_is_acknowledged_like_the_rest(self, payload: bytes, talk: Conversation) -> None:
        talk.receives(data_ack(4, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 9)))
        for message_id in (5, 6):
            tag = only(FramesReceived, talk.receives(data_ack(message_id, ENVELOPE_TYPE, payload))).tag
            talk.logs(tag)
            assert talk.sends() == ack(message_id)

    @pytest.mark.parametrize("subject", ["mesh.subscribe", "MESH.subscribe", "mesh/subscribe"])
    def test_a_control_subject_is_acknowledged_when_it_is_answered(self, subject: str, talk: Conversation) -> None:
        for message_id in (5, 6):
            payload = enveloped(Kind.EVENT, subject=subject)
            assert only(FramesReceived, talk.receives(data_ack(message_id, ENVELOPE_TYPE, payload))).tag is None
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="6"))
        refused = encode(Frame(Command.ERROR, 0, 0xFF00, b"{}"))
        talk.delivers(delivery(refused, Kind.ERROR, stamps=(1,), request="5"))
        assert talk.sends() == ack(6) + encode(Frame(Command.ERROR, 5, 0xFF00, b"{}"))

    def test_a_mapped_control_subject_is_one_too(self) -> None:
        talk = hsp({"types": {17: "mesh.subscribe"}})
        assert only(FramesReceived, talk.receives(data_ack(5))).tag is None

    @pytest.mark.parametrize("first", [b"", data(ENVELOPE_TYPE, enveloped(Kind.EVENT))], ids=["first", "after another"])
    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"\x01",
            b"\x01\x00" + bytes(13),
            b"\x02" + enveloped(Kind.EVENT)[1:],
            b"\x01\x00\x00\x01" + enveloped(Kind.EVENT)[4:],
            enveloped(Kind.EVENT, 9),
            enveloped(Kind.EVENT, subject=""),
            enveloped(Kind.EVENT).replace(b"orders", b"order\xff"),
            enveloped(Kind.EVENT)[:12] + b"\xff\xff" + enveloped(Kind.EVENT)[14:],
            enveloped(Kind.EVENT, body=b"")[:-1] + b"\x01\xff",
        ],
    )
    def test_a_broken_envelope_is_refused_and_logged_all_the_same(self, first: bytes, payload: bytes) -> None:
        talk = hsp()
        talk.receives(first)
        stream = data(ENVELOPE_TYPE, payload) + data_ack(5, ENVELOPE_TYPE, payload)
        run = only(FramesReceived, talk.receives(stream))
        assert (run.data, run.tag) == (stream, None)
        (said,) = frames(talk.sends())
        assert (said.command, said.message_id, json.loads(said.payload)["code"]) == (Command.ERROR, 5, "bad_request")


class TestForbidden:
    """The router refuses what is forbidden after the frame is logged: too late for an ACK that says no more."""

    FORBIDDEN = error(1, "forbidden", "this node may not publish that")

    @pytest.mark.parametrize(
        ("type_", "payload"), [(17, b"x"), (ENVELOPE_TYPE, enveloped(Kind.EVENT, subject="secret.a"))]
    )
    @pytest.mark.parametrize("envelope", ["auto", "always"])
    def test_an_event_is_logged_and_refused_at_once(self, type_: int, payload: bytes, envelope: str) -> None:
        options = {"types": {17: "secret.a"}, "envelope": envelope}
        talk = hsp(options, may_publish=lambda subject: subject != "secret.a")
        (run,) = received(talk.receives(data_ack(1, type_, payload)))
        assert talk.sends() == self.FORBIDDEN
        assert run.tag is None

    def test_what_is_allowed_is_acknowledged_when_it_is_logged(self) -> None:
        talk = hsp(may_publish=lambda subject: subject == "hsp.17")
        (run,) = received(talk.receives(data_ack(1) + data_ack(2, 18) + data(18)))
        assert len(run.lengths) == 3
        assert talk.sends() == error(2, "forbidden", "this node may not publish that")
        talk.logs(run.tag)
        assert talk.sends() == ack(1)

    def test_requests_are_the_routers_to_refuse(self) -> None:
        talk = hsp(ORDERS, may_publish=lambda _: False)
        (run,) = received(talk.receives(data_ack(1, 7)))
        assert run.tag is None
        assert talk.sends() == b""

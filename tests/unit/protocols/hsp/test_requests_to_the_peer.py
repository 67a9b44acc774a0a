"""Requests that the peer is to answer: whose answer it is, and what becomes of those it never answers."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.protocols.actions import AbandonRequests, Delivered, Delivery, FrameRefused, FramesReceived, Outcome
from gateway.protocols.hsp import unconfirmed
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, received
from tests.unit.protocols.hsp.talk import ack, data, data_ack, enveloped, error, frames, hsp


class TestRequestsToThePeer:
    def request(self, frame: bytes, stamps: tuple[int, ...] = (1,)) -> Delivery:
        return delivery(frame, Kind.REQUEST, stamps=stamps, reply=asked_by())

    @pytest.mark.parametrize(
        "answer",
        [ack(), encode(Frame(Command.ERROR, 1, 0x1234, b"bad")), encode(Frame(Command.ERROR_UNDEF, 1))],
        ids=["ACK", "ERROR", "ERROR_UNDEF"],
    )
    def test_what_the_peer_says_of_it_is_the_answer(self, answer: bytes, talk: Conversation) -> None:
        talk.delivers(self.request(data_ack(0, 18)))
        assert talk.sends() == data_ack(1, 18)
        actions = talk.receives(data() + answer + data())
        assert [run.data for run in received(actions)] == [data(), answer, data()]
        assert [run.replies for run in received(actions)] == [(), (asked_by(),), ()]
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED

    def test_an_enveloped_request_is_answered_in_the_envelope_and_its_ack_is_only_an_ack(self) -> None:
        talk = hsp()
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        assert frames(talk.sends())[1] == Frame(Command.DATA_ACK, 2, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 2))
        for kind in (Kind.PROGRESS, Kind.PROGRESS, Kind.RESPONSE):
            said = data(ENVELOPE_TYPE, enveloped(kind, 2))
            answer = only(FramesReceived, talk.receives(said))
            assert (answer.data, answer.replies, answer.tag) == (said, (asked_by(),), None)
        assert [type(action) for action in talk.receives(ack(2))] == [Delivered]

    def test_an_answer_that_asks_for_an_ack_gets_it_when_it_is_logged(self, talk: Conversation) -> None:
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.sends()
        answer = only(FramesReceived, talk.receives(data_ack(9, ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1))))
        talk.logs(answer.tag)
        assert talk.sends() == ack(9)

    @pytest.mark.parametrize("correlation", [1, 2, 1 << 40])
    def test_an_answer_to_no_open_request_is_dropped_and_counted(self, correlation: int, talk: Conversation) -> None:
        talk.delivers(self.request(data_ack(0, 18)))
        talk.receives(ack(1))
        actions = talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, correlation)))
        assert only(FrameRefused, actions).reason is Reason.TIMEOUT
        assert received(actions) == []
        assert talk.ended is None

    def test_an_answer_to_no_open_request_that_asks_for_an_ack_is_refused(self, talk: Conversation) -> None:
        talk.receives(data_ack(9, ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1)))
        assert talk.sends() == error(9, "bad_request", "an answer to no open request")

    def test_a_request_that_was_answered_is_not_lost_with_the_ack_that_never_came(self, talk: Conversation) -> None:
        talk.delivers(self.request(data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1)), (1, 19)))
        talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 1)))
        talk.session.receive_eof()
        actions = talk.acts()
        assert only(Delivered, actions).outcome is Outcome.CONFIRMED
        assert not any(isinstance(action, AbandonRequests) for action in actions)

    def test_a_cancel_goes_to_a_peer_that_has_the_request_and_to_no_other(self, talk: Conversation) -> None:
        cancel = data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 1))
        request = data_ack(0, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 1))
        talk.delivers(self.request(data_ack(0)))
        talk.delivers(delivery(request, Kind.REQUEST, stamps=(1, 19), reply=asked_by("r2")))
        talk.sends()
        unknown = talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by("r3")))
        assert only(Delivered, unknown).outcome is Outcome.WRITTEN
        assert talk.sends() == b""
        talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by("r2")))
        assert talk.sends() == data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 2))

    def test_a_cancel_of_what_is_answered_goes_nowhere(self, talk: Conversation) -> None:
        talk.delivers(self.request(data_ack(0)))
        talk.receives(ack(1))
        talk.sends()
        cancel = data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 1))
        talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(15,), reply=asked_by()))
        assert talk.sends() == b""

    def test_beyond_so_many_requests_the_oldest_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unconfirmed, "MAX_UNCONFIRMED", 1)
        talk = hsp()
        talk.delivers(delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by("r1")))
        actions = talk.delivers(delivery(data_ack(0), Kind.REQUEST, stamps=(1,), reply=asked_by("r2")))
        assert only(AbandonRequests, actions) == AbandonRequests((asked_by("r1"),), MeshError.TIMEOUT)
        assert only(Delivered, actions).outcome is Outcome.UNDELIVERABLE
        assert only(FrameRefused, talk.receives(ack(1))).reason is Reason.TIMEOUT
        assert only(FramesReceived, talk.receives(ack(2))).replies == (asked_by("r2"),)

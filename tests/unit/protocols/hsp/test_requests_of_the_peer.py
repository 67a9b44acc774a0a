"""Requests that the peer makes: a DATA_ACK of a type that asks, or the envelope's."""

from __future__ import annotations

from typing import cast

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import Delivered, FrameRefused, FramesReceived, Outcome, RequestEnded
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from tests.unit.protocols.contract.conversation import Conversation, delivery, only, received
from tests.unit.protocols.hsp.talk import ORDERS, ack, data, data_ack, enveloped, error, frames, hsp


class TestRequestsOfThePeer:
    def test_a_request_is_acknowledged_by_its_answer(self) -> None:
        talk = hsp(ORDERS)
        assert only(FramesReceived, talk.receives(data_ack(5, 7))).tag is None
        reply = data(19) + ack(0)
        actions = talk.delivers(delivery(reply, Kind.RESPONSE, stamps=(len(data(19)) + 1,), request="5"))
        assert only(RequestEnded, actions).outcome == "response"
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert talk.sends() == data(19) + ack(5)

    def test_an_enveloped_request_hears_progress_answer_and_ack(self, talk: Conversation) -> None:
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        progress = data(ENVELOPE_TYPE, enveloped(Kind.PROGRESS, 77))
        talk.delivers(delivery(progress, Kind.PROGRESS, request="e77"))
        final = data(ENVELOPE_TYPE, enveloped(Kind.RESPONSE, 77))
        talk.delivers(delivery(final + ack(0), Kind.RESPONSE, stamps=(len(final) + 1,), request="e77"))
        assert talk.sends() == progress + final + ack(5)

    def test_no_answer_in_time_is_an_error_and_a_later_one_is_dropped_and_counted(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        assert only(RequestEnded, talk.waits(5)).outcome == "timeout"
        assert talk.sends() == error(5, "timeout", "no answer in time")
        actions = talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert only(Delivered, actions).outcome is Outcome.EXPIRED
        assert only(RequestEnded, actions).outcome == "late"
        assert talk.sends() == b""

    def test_a_late_answer_is_not_taken_for_that_to_the_next_request_of_its_id(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        talk.waits(5)
        talk.sends()
        for name in ("5.1", "5.2"):
            run = only(FramesReceived, talk.receives(data_ack(5, 7)))
            assert [reply.request for reply in run.replies] == [name]
            late = talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
            assert only(Delivered, late).outcome is Outcome.EXPIRED
            talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request=name))
            assert talk.sends() == ack(5)
        assert talk.session.open_requests == 0

    def test_nor_is_one_in_the_envelope_and_a_cancel_means_the_one_that_is_open(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        asked = data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77))
        talk.receives(asked)
        talk.waits(5)
        talk.sends()
        before, cancel = data(), data_ack(6, ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77))
        runs = received(talk.receives(before + asked + cancel + asked + data()))
        named = [(run.data, [reply.request for reply in run.replies]) for run in runs]
        assert named == [(before, []), (asked, ["e77.1"]), (cancel, ["e77.1"]), (data(), [])]
        assert talk.sends() == error(5, "bad_request", "the correlation is that of an open request")
        talk.logs(runs[2].tag)
        assert talk.sends() == ack(6)
        talk.waits(5)
        said, acknowledged = frames(talk.sends())
        assert said.payload.startswith(Envelope(Kind.ERROR, 77, "orders.create", "application/json").encode())
        assert acknowledged == Frame(Command.ACK, 5)

    def test_a_cancel_is_logged_with_the_subject_of_its_request_whatever_it_says_itself(self) -> None:
        talk = hsp()
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        cancel = data(ENVELOPE_TYPE, enveloped(Kind.CANCEL, 77, subject="mesh.session.closed"))
        run = only(FramesReceived, talk.receives(cancel))
        assert [(reply.request, reply.subject) for reply in run.replies] == [("e77", "orders.create")]

    def test_a_cancel_of_no_open_request_is_refused_and_counted(self, talk: Conversation) -> None:
        cancel = enveloped(Kind.CANCEL, 77)
        actions = talk.receives(data_ack(6, ENVELOPE_TYPE, cancel))
        assert only(FrameRefused, actions).reason is Reason.UNDELIVERABLE
        assert received(actions) == []
        assert talk.sends() == error(6, "bad_request", "a cancel of no open request")
        assert only(FrameRefused, talk.receives(data(ENVELOPE_TYPE, cancel))).reason is Reason.UNDELIVERABLE
        assert (talk.sends(), talk.ended) == (b"", None)

    def test_an_enveloped_request_hears_of_its_timeout_in_the_envelope(self) -> None:
        talk = hsp(request_timeout_seconds=5)
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        talk.waits(5)
        said, acknowledged = frames(talk.sends())
        head = Envelope(Kind.ERROR, 77, "orders.create", "application/json").encode()
        assert said == Frame(Command.DATA, 0, ENVELOPE_TYPE, head + b'{"code":"timeout","message":"no answer in time"}')
        assert acknowledged == Frame(Command.ACK, 5)

    def test_progress_that_cannot_be_told_still_moves_the_deadline(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7))
        talk.waits(4)
        talk.delivers(delivery(b"", Kind.PROGRESS, request="5"))
        talk.waits(4)
        assert talk.session.data_to_send() == []
        talk.waits(1)
        assert talk.sends() == error(5, "timeout", "no answer in time")

    def test_an_id_may_be_used_again_after_its_answer(self) -> None:
        talk = hsp(ORDERS)
        for _ in range(3):
            talk.receives(data_ack(5, 7))
            talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.sends() == ack(5) * 3

    def test_nothing_is_kept_of_a_request_that_is_over(self) -> None:
        talk = hsp(ORDERS, request_timeout_seconds=5)
        talk.receives(data_ack(5, 7) + data_ack(6, 7))
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        talk.waits(5)
        assert cast(HspSession, talk.session)._names.message_ids == {}
        talk.receives(data_ack(5, 7))
        talk.delivers(delivery(ack(0), Kind.RESPONSE, stamps=(1,), request="5"))
        assert talk.session.get_timer() == talk.now + HspOptions().ping_seconds

    def test_an_id_used_twice_at_once_ends_the_session(self) -> None:
        talk = hsp(ORDERS)
        talk.receives(data_ack(5, 7) + data_ack(5, 7))
        assert talk.ended == Reason.MALFORMED

    def test_a_correlation_used_twice_at_once_is_refused_with_its_message_id(self, talk: Conversation) -> None:
        talk.receives(data_ack(5, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        actions = talk.receives(data_ack(6, ENVELOPE_TYPE, enveloped(Kind.REQUEST, 77)))
        assert only(FrameRefused, actions).reason is Reason.MALFORMED
        assert received(actions) == []
        assert talk.sends() == error(6, "bad_request", "the correlation is that of an open request")

    def test_one_open_request_too_many_is_refused_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(HspSession, "max_open_requests", 2)
        talk = hsp(ORDERS)
        actions = talk.receives(data_ack(1, 7) + data_ack(2, 7) + data_ack(3, 7))
        assert only(FramesReceived, actions).lengths == (12, 12)
        assert only(FrameRefused, actions).reason is Reason.OVERLOAD
        assert talk.sends() == error(3, "internal", "too many open requests")

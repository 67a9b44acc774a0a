"""The extension request-response in the session: requests of the peer, and requests to it."""

from __future__ import annotations

import json

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.protocols.actions import (
    AbandonRequests,
    Delivered,
    FrameRefused,
    FramesReceived,
    Outcome,
    RequestEnded,
    Terminated,
)
from gateway.protocols.emp.extensions import understand
from gateway.protocols.emp.session import EmpSession
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, received
from tests.unit.protocols.emp.talk import BYE, answered, data, emp, envelope, failure, messages, request, response


class TestRequestsOfThePeer:
    def test_a_request_is_logged_and_answered_with_what_the_router_wrote(self, talk: Conversation) -> None:
        talk.receives(request(1))
        actions = talk.delivers(answered(response(1, b"ok")))
        assert only(RequestEnded, actions).outcome == "response"
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert talk.sends() == response(1, b"ok")

    def test_no_answer_in_time_is_a_response_with_the_error_and_a_later_one_is_dropped_and_counted(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9))
        assert only(RequestEnded, talk.waits(5)).outcome == "timeout"
        assert talk.sends() == response(9, b'{"code":"timeout","message":"no answer in time"}')
        actions = talk.delivers(answered(response(9), request_id="9"))
        assert only(Delivered, actions).outcome is Outcome.EXPIRED
        assert talk.sends() == b""

    def test_a_peer_that_speaks_the_envelope_is_told_the_error_in_it(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        talk.waits(5)
        (said,) = messages(talk.sends())
        content = understand(said, 1000)
        assert (content.kind, content.request_id, json.loads(content.body)["code"]) == (Kind.ERROR, 9, "timeout")
        assert content.envelope == Envelope(Kind.ERROR, 9, "orders.create", "application/json")

    def test_progress_moves_the_deadline(self) -> None:
        talk = emp(request_timeout_seconds=5)
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        talk.waits(4)
        progress = data(b"half", envelope(Kind.PROGRESS, 9))
        talk.delivers(answered(progress, Kind.PROGRESS, "9"))
        talk.waits(4)
        assert talk.sends() == progress

    def test_a_request_id_used_twice_at_once_is_an_error_of_the_protocol(self, talk: Conversation) -> None:
        talk.receives(request(9) + request(9))
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    def test_one_open_request_too_many_is_answered_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(EmpSession, "max_open_requests", 2)
        talk = emp()
        actions = talk.receives(request(1) + request(2) + request(3))
        assert only(FramesReceived, actions).lengths == (29, 29)
        assert only(FrameRefused, actions).reason is Reason.OVERLOAD
        assert talk.sends() == response(3, b'{"code":"internal","message":"too many open requests"}')

    @pytest.mark.parametrize("subject", ["orders.create", "mesh.session.closed"])
    def test_a_cancel_is_logged_with_the_subject_of_its_request_whatever_it_says_itself(self, subject: str) -> None:
        talk = emp()
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        cancel = data(b"", envelope(Kind.CANCEL, 9, subject))
        runs = received(talk.receives(data() + cancel + data()))
        assert [run.data for run in runs] == [data(), cancel, data()]
        assert [reply.subject for reply in runs[1].replies] == ["orders.create"]

    def test_a_cancel_of_no_open_request_is_dropped_and_counted(self, talk: Conversation) -> None:
        talk.receives(request(9, b"x", envelope(Kind.REQUEST, 9)))
        talk.delivers(answered(response(9), request_id="9"))
        for number in (9, 10):
            actions = talk.receives(data(b"", envelope(Kind.CANCEL, number)))
            assert only(FrameRefused, actions).reason is Reason.UNDELIVERABLE
            assert received(actions) == []
        assert talk.ended is None


class TestRequestsToThePeer:
    def ask(self, talk: Conversation, name: str = "r1", *, enveloped: bool = False) -> None:
        frame = request(1, b"in", envelope(Kind.REQUEST, 1)) if enveloped else request(1, b"in")
        stamps = (20, 40) if enveloped else (20,)
        talk.delivers(delivery(frame, Kind.REQUEST, stamps=stamps, reply=asked_by(name)))

    def test_ids_count_up_from_1(self, talk: Conversation) -> None:
        for _ in range(3):
            self.ask(talk)
        assert talk.sends() == request(1, b"in") + request(2, b"in") + request(3, b"in")

    def test_an_enveloped_request_has_its_correlation_stamped_too(self, talk: Conversation) -> None:
        self.ask(talk)
        talk.sends()
        self.ask(talk, enveloped=True)
        assert talk.sends() == request(2, b"in", envelope(Kind.REQUEST, 2))

    def test_the_response_goes_back_to_who_asked(self, talk: Conversation) -> None:
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        actions = talk.receives(data() + response(2) + data() + response(1))
        assert [run.data for run in received(actions)] == [data(), response(2), data(), response(1)]
        assert [run.replies for run in received(actions)] == [(), (asked_by("r2"),), (), (asked_by("r1"),)]

    def test_progress_does_not_end_a_request(self, talk: Conversation) -> None:
        self.ask(talk)
        for answer in (data(b"1", envelope(Kind.PROGRESS, 1)), response(1, b"2", envelope(Kind.ERROR, 1))):
            assert only(FramesReceived, talk.receives(answer)).replies == (asked_by(),)

    @pytest.mark.parametrize("request_id", [1, 2, 1 << 63])
    def test_a_response_to_no_open_request_is_an_error_of_the_protocol(self, request_id: int) -> None:
        talk = emp()
        self.ask(talk)
        talk.receives(response(1))
        talk.sends()
        talk.receives(response(request_id))
        assert failure(talk).code == 3
        assert talk.ended == Reason.MALFORMED

    def test_progress_of_no_open_request_is_dropped_and_counted(self, talk: Conversation) -> None:
        actions = talk.receives(data(b"1", envelope(Kind.PROGRESS, 1)))
        assert only(FrameRefused, actions).reason is Reason.TIMEOUT
        assert received(actions) == []
        assert talk.ended is None

    def test_beyond_so_many_the_oldest_is_given_up_and_its_late_response_dropped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(EmpSession, "max_open_requests", 1)
        talk = emp()
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        assert only(AbandonRequests, talk.said) == AbandonRequests((asked_by("r1"),), MeshError.TIMEOUT)
        assert only(FrameRefused, talk.receives(response(1))).reason is Reason.TIMEOUT
        assert only(FramesReceived, talk.receives(response(2))).replies == (asked_by("r2"),)
        talk.receives(response(1))
        assert talk.ended == Reason.MALFORMED

    def test_a_cancel_goes_to_a_peer_that_has_the_request_and_to_no_other(self, talk: Conversation) -> None:
        self.ask(talk, "r1", enveloped=True)
        self.ask(talk, "r2", enveloped=True)
        talk.sends()
        cancel = data(b"", envelope(Kind.CANCEL, 1))
        for name, said in (("r3", b""), ("r2", data(b"", envelope(Kind.CANCEL, 2)))):
            actions = talk.delivers(delivery(cancel, Kind.CANCEL, stamps=(20,), reply=asked_by(name)))
            assert only(Delivered, actions).outcome is Outcome.WRITTEN
            assert talk.sends() == said

    def test_requests_that_are_open_at_the_end_are_abandoned(self, talk: Conversation) -> None:
        self.ask(talk, "r1")
        self.ask(talk, "r2")
        actions = talk.receives(BYE)
        assert only(AbandonRequests, actions).replies == (asked_by("r1"), asked_by("r2"))
        assert actions[-1] == Terminated("bye")

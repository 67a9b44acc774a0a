"""Requests in a session: asked by the peer, served by the peer, cancelled, killed, late, repeated."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import Delivered, FrameRefused, FramesReceived, Outcome, RequestEnded
from gateway.protocols.yamp.codec import decode, encode
from gateway.protocols.yamp.frames import Cancel, Request, Response, ResponseType
from gateway.protocols.yamp.session import YampSession
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, token

from .test_session import opened
from .vectors import CANCEL, DONE, EVENT, KILL, PROGRESSIVE_REQUEST, REQUEST, frame, uid

ASKED = uid(2).hex()
TIMEOUT_BODY = b'{"code":"timeout","message":"no answer in time"}'


def answer(outcome: ResponseType, body: bytes = b"") -> bytes:
    return encode(Response(uid(9), "sum", uid(2), outcome, body))


def asks(request: bytes = REQUEST) -> Conversation:
    """The peer has asked `sum`."""
    conversation = opened()
    conversation.receives(request)
    conversation.said.clear()
    return conversation


def serves() -> Conversation:
    """The peer has been asked `sum` under the uid 02."""
    conversation = opened()
    conversation.delivers(delivery(REQUEST, Kind.REQUEST, reply=asked_by()))
    conversation.sends()
    conversation.said.clear()
    return conversation


ANSWERS = [
    (Kind.RESPONSE, ResponseType.DONE),
    (Kind.ERROR, ResponseType.ERROR),
    (Kind.CANCELLED, ResponseType.CANCELLED),
]


class TestAskedByThePeer:
    def test_a_request_goes_to_the_log_in_line_with_events(self) -> None:
        received = only(FramesReceived, opened().receives(EVENT + REQUEST + EVENT))
        assert received.data == EVENT + REQUEST + EVENT

    def test_one_whose_body_is_no_json_is_answered_with_an_error_and_the_session_goes_on(self) -> None:
        conversation = opened()
        actions = conversation.receives(frame("06 02*16 03 73756d 00 00000002 c3a9") + EVENT)
        assert only(FrameRefused, actions).reason is Reason.BAD_ENCODING
        assert only(FramesReceived, actions).data == EVENT
        said = decode(conversation.sends())
        assert isinstance(said, Response)
        assert (said.request_uid, said.outcome) == (uid(2), ResponseType.ERROR)
        assert b"not JSON: JSON is malformed: invalid character (byte 0)" in said.body

    @pytest.mark.parametrize(("kind", "outcome"), ANSWERS)
    def test_the_final_answer_ends_it(self, kind: Kind, outcome: ResponseType) -> None:
        conversation = asks()
        actions = conversation.delivers(delivery(answer(outcome), kind, request=ASKED))
        assert only(RequestEnded, actions).outcome == kind
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert conversation.sends() == answer(outcome)
        conversation.waits(29)
        assert conversation.sends() == b""

    @pytest.mark.parametrize(("kind", "outcome"), ANSWERS)
    def test_a_second_answer_is_dropped_and_counted(self, kind: Kind, outcome: ResponseType) -> None:
        conversation = asks()
        conversation.delivers(delivery(answer(ResponseType.DONE), Kind.RESPONSE, request=ASKED))
        conversation.sends()
        actions = conversation.delivers(delivery(answer(outcome), kind, request=ASKED))
        assert only(Delivered, actions).outcome is Outcome.EXPIRED
        assert only(RequestEnded, actions).outcome == "late"
        assert conversation.sends() == b""

    def test_without_an_answer_it_times_out_with_an_error(self) -> None:
        conversation = asks()
        conversation.waits(29.9)
        assert all(isinstance(action, RequestEnded) is False for action in conversation.said)
        actions = conversation.waits(0.1)
        assert only(RequestEnded, actions).outcome == "timeout"
        errors = [said for piece in conversation.session.data_to_send() if isinstance(said := decode(piece), Response)]
        assert errors == [Response(token(16), "sum", uid(2), ResponseType.ERROR, TIMEOUT_BODY)]

    def test_progress_that_was_asked_for_is_passed_on_and_puts_the_timeout_off(self) -> None:
        conversation = asks(PROGRESSIVE_REQUEST)
        conversation.waits(20)
        progress = answer(ResponseType.PROGRESS, b"50")
        actions = conversation.delivers(delivery(progress, Kind.PROGRESS, request=ASKED))
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert conversation.sends() == progress
        conversation.waits(29)
        assert not any(isinstance(action, RequestEnded) for action in conversation.said)
        assert only(RequestEnded, conversation.waits(1)).outcome == "timeout"

    @pytest.mark.parametrize("progress", [answer(ResponseType.PROGRESS, b"50"), b""])
    def test_progress_that_was_not_asked_for_only_puts_the_timeout_off(self, progress: bytes) -> None:
        conversation = asks(REQUEST)
        conversation.waits(20)
        actions = conversation.delivers(delivery(progress, Kind.PROGRESS, request=ASKED))
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert conversation.sends() == b""
        conversation.waits(20)
        assert not any(isinstance(action, RequestEnded) for action in conversation.said)

    def test_a_second_open_request_with_its_uid_is_answered_with_an_error(self) -> None:
        conversation = asks()
        again = encode(Request(uid(2), "other", b"1"))
        actions = conversation.receives(again)
        assert only(FrameRefused, actions).reason is Reason.REPLAY
        assert not any(isinstance(action, FramesReceived) for action in actions)
        said = decode(conversation.sends())
        assert isinstance(said, Response)
        assert (said.uri, said.request_uid, said.outcome) == ("other", uid(2), ResponseType.ERROR)
        assert said.body == b'{"code":"bad_request","message":"a request with this uid is open"}'

    def test_the_first_request_with_its_uid_stays_open(self) -> None:
        conversation = asks()
        conversation.receives(REQUEST)
        conversation.sends()
        done = delivery(answer(ResponseType.DONE), Kind.RESPONSE, request=ASKED)
        assert only(Delivered, conversation.delivers(done)).outcome is Outcome.WRITTEN

    def test_a_uid_may_be_used_again_once_its_request_is_over(self) -> None:
        conversation = asks()
        conversation.delivers(delivery(answer(ResponseType.DONE), Kind.RESPONSE, request=ASKED))
        assert only(FramesReceived, conversation.receives(REQUEST)).data == REQUEST

    def test_open_requests_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(YampSession, "max_open_requests", 2)
        conversation = opened()
        for number in (1, 2):
            assert only(FramesReceived, conversation.receives(encode(Request(uid(number), "sum"))))
        actions = conversation.receives(encode(Request(uid(3), "sum")))
        assert only(FrameRefused, actions).reason is Reason.OVERLOAD
        said = decode(conversation.sends())
        assert isinstance(said, Response)
        assert (said.request_uid, said.outcome) == (uid(3), ResponseType.ERROR)


class TestCancelledByThePeer:
    def test_a_graceful_cancel_goes_to_the_log_and_the_request_stays_open(self) -> None:
        conversation = asks()
        assert only(FramesReceived, conversation.receives(CANCEL)).data == CANCEL
        cancelled = delivery(answer(ResponseType.CANCELLED), Kind.CANCELLED, request=ASKED)
        assert only(RequestEnded, conversation.delivers(cancelled)).outcome == "cancelled"
        assert conversation.sends() == answer(ResponseType.CANCELLED)

    def test_after_a_kill_the_requester_hears_nothing_more(self) -> None:
        conversation = asks()
        actions = conversation.receives(KILL)
        assert only(FramesReceived, actions).data == KILL
        assert only(RequestEnded, actions).outcome == "cancelled"
        done = delivery(answer(ResponseType.DONE), Kind.RESPONSE, request=ASKED)
        assert only(Delivered, conversation.delivers(done)).outcome is Outcome.EXPIRED
        conversation.waits(29)
        assert conversation.sends() == b""

    @pytest.mark.parametrize("cancel", [CANCEL, KILL])
    def test_a_cancel_of_an_unknown_request_is_ignored_and_counted(self, cancel: bytes) -> None:
        conversation = opened()
        actions = conversation.receives(cancel)
        assert [type(action) for action in actions] == [FrameRefused]
        assert conversation.sends() == b""

    def test_a_cancel_of_a_request_that_is_over_is_ignored(self) -> None:
        conversation = asks()
        conversation.delivers(delivery(answer(ResponseType.DONE), Kind.RESPONSE, request=ASKED))
        assert [type(action) for action in conversation.receives(CANCEL)] == [FrameRefused]

    @pytest.mark.parametrize("uri", ["", "other"])
    def test_a_cancel_with_another_uri_is_logged_with_what_its_request_asked(self, uri: str) -> None:
        conversation = asks()
        cancel = encode(Cancel(uid(8), uri, uid(2)))
        received = [one for one in conversation.receives(EVENT + cancel) if isinstance(one, FramesReceived)]
        assert [one.data for one in received] == [EVENT, cancel]
        assert [(reply.request, reply.subject) for reply in received[1].replies] == [(ASKED, "sum")]


class TestServedByThePeer:
    def test_a_request_is_delivered_as_the_router_wrote_it(self) -> None:
        conversation = opened()
        actions = conversation.delivers(delivery(REQUEST, Kind.REQUEST, reply=asked_by()))
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert conversation.sends() == REQUEST

    @pytest.mark.parametrize("outcome", [ResponseType.DONE, ResponseType.ERROR, ResponseType.CANCELLED])
    def test_its_final_answer_is_logged_with_the_requester_and_a_second_one_refused(
        self, outcome: ResponseType
    ) -> None:
        conversation = serves()
        received = only(FramesReceived, conversation.receives(answer(outcome)))
        assert (received.data, received.replies) == (answer(outcome), (asked_by(),))
        assert only(FrameRefused, conversation.receives(answer(outcome))).reason is Reason.UNDELIVERABLE

    def test_progress_leaves_it_open(self) -> None:
        conversation = serves()
        for _ in range(3):
            received = only(FramesReceived, conversation.receives(answer(ResponseType.PROGRESS, b"50")))
            assert received.replies == (asked_by(),)
        assert only(FramesReceived, conversation.receives(DONE)).replies == (asked_by(),)

    def test_answers_and_events_stay_in_the_order_they_came(self) -> None:
        received = [one for one in serves().receives(EVENT + DONE + EVENT) if isinstance(one, FramesReceived)]
        assert [one.data for one in received] == [EVENT, DONE, EVENT]
        assert [one.replies for one in received] == [(), (asked_by(),), ()]

    def test_an_answer_that_nobody_asked_for_is_refused_and_the_session_goes_on(self) -> None:
        conversation = opened()
        actions = conversation.receives(DONE + EVENT)
        assert only(FrameRefused, actions).detail == "a response to no open request"
        assert only(FramesReceived, actions).data == EVENT

    def test_an_answer_counts_by_its_request_uid_alone(self) -> None:
        wrong_uri = encode(Response(uid(9), "other", uid(2)))
        assert only(FramesReceived, serves().receives(wrong_uri)).replies == (asked_by(),)

    def test_a_cancel_is_sent_with_the_uid_that_the_request_had_here(self) -> None:
        conversation = serves()
        actions = conversation.delivers(
            delivery(frame("07 08*16 03 73756d 00*16 00"), Kind.CANCEL, stamps=(21,), reply=asked_by())
        )
        assert only(Delivered, actions).outcome is Outcome.WRITTEN
        assert conversation.sends() == CANCEL
        assert only(FramesReceived, conversation.receives(answer(ResponseType.CANCELLED))).replies == (asked_by(),)

    def test_after_a_kill_no_answer_is_owed(self) -> None:
        conversation = serves()
        conversation.delivers(
            delivery(frame("07 08*16 03 73756d 00*16 01"), Kind.CANCEL, stamps=(21,), reply=asked_by())
        )
        assert conversation.sends() == KILL
        assert only(FrameRefused, conversation.receives(DONE)).reason is Reason.UNDELIVERABLE

    def test_a_cancel_of_a_request_that_did_not_come_here_is_not_sent(self) -> None:
        conversation = serves()
        cancel = delivery(CANCEL, Kind.CANCEL, stamps=(21,), reply=asked_by("another"))
        assert only(Delivered, conversation.delivers(cancel)).outcome is Outcome.WRITTEN
        assert conversation.sends() == b""

"""RemoteMethodCall from the peer: logged, answered by the router, or refused."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import Delivered, FramesReceived, Opened, Outcome, RequestEnded
from gateway.protocols.wolpertinger.codec import call_id_offset, encode
from gateway.protocols.wolpertinger.frames import Call, CallResponse, RemoteError, RemoteErrorCode
from gateway.protocols.wolpertinger.mapping import UNSTAMPED_CALL_ID
from gateway.protocols.wolpertinger.transmission import encode as encode_pieces
from gateway.protocols.wolpertinger.transmission import pack
from tests.unit.protocols.contract.conversation import delivery, only
from tests.unit.protocols.wolpertinger.talk import (
    CALL,
    CALL_ID,
    OTHER_CALL_ID,
    Talk,
    call,
    confirmations,
    refused,
    talk,
    text,
)


def test_a_session_is_open_from_its_start() -> None:
    assert only(Opened, talk().said).facts == {}


def test_a_call_is_logged_as_xml_and_answered_by_the_router(conversation: Talk) -> None:
    logged = only(FramesReceived, conversation.is_told(CALL))
    assert (logged.data, logged.replies) == (encode(CALL), ())
    answer = CallResponse("Core", CALL_ID, text("b"))
    done = conversation.delivers(delivery(encode(answer), Kind.RESPONSE, request=CALL_ID))
    assert only(RequestEnded, done).outcome == "response"
    assert conversation.answers() == [answer]


def test_a_call_is_confirmed_before_its_answer_though_the_answer_is_quicker_than_the_log(conversation: Talk) -> None:
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    assert conversation.says() == []
    conversation.delivers(delivery(encode(CallResponse("Core", CALL_ID, text("b"))), Kind.RESPONSE, request=CALL_ID))
    confirmed, answered = conversation.says()
    assert confirmations([confirmed]) == [(1, 0)]
    assert confirmations([answered]) == []
    conversation.logs(logged.tag)
    assert conversation.says() == []


def test_what_came_with_an_answered_call_is_confirmed_with_the_log(conversation: Talk) -> None:
    conversation.slow_log = True
    other = call("Core", "testMethod1", call_id=OTHER_CALL_ID)
    pieces = [
        piece
        for at, one in enumerate((CALL, other), 1)
        for piece in encode_pieces(at, pack(encode(one), None, compress=False))
    ]
    logged = only(FramesReceived, conversation.receives(b"\n".join(pieces) + b"\n"))
    conversation.delivers(delivery(b"x", Kind.RESPONSE, request=CALL_ID))
    assert confirmations(conversation.says()) == [(1, 0)]
    conversation.logs(logged.tag)
    assert confirmations(conversation.says()) == [(2, 0)]


def test_a_call_id_is_kept_as_the_peer_wrote_it(conversation: Talk) -> None:
    conversation.is_told(call("Core", "testMethod1", call_id=CALL_ID.upper()))
    late = conversation.delivers(delivery(b"x", Kind.RESPONSE, request=CALL_ID))
    assert only(Delivered, late).outcome is Outcome.EXPIRED
    right = conversation.delivers(delivery(b"x", Kind.RESPONSE, request=CALL_ID.upper()))
    assert only(RequestEnded, right).outcome == "response"


def test_a_call_that_is_an_event_is_forgotten_and_hears_nothing(conversation: Talk) -> None:
    conversation.is_told(CALL)
    done = conversation.delivers(delivery(b"", Kind.EVENT, request=CALL_ID))
    assert only(RequestEnded, done).outcome == "event"
    assert only(Delivered, done).outcome is Outcome.WRITTEN
    assert conversation.answers() == []
    conversation.waits(100.0)
    assert conversation.answers() == []


def test_a_call_without_an_answer_in_time_hears_400() -> None:
    conversation = talk(request_timeout_seconds=30.0)
    conversation.is_told(CALL)
    conversation.waits(29.9)
    assert conversation.answers() == []
    assert only(RequestEnded, conversation.waits(0.1)).outcome == "timeout"
    assert conversation.answers() == [RemoteError("Core", RemoteErrorCode.RESPONSE, CALL_ID)]


def test_a_control_call_without_an_answer_in_time_hears_of_the_meshs_component(conversation: Talk) -> None:
    conversation.is_told(call("MESH", "subscribe", text("a.>")))
    conversation.waits(30.0)
    assert conversation.answers() == [RemoteError("Mesh", RemoteErrorCode.RESPONSE, CALL_ID)]


def test_progress_keeps_a_call_open_and_reaches_the_caller_as_a_heartbeat(conversation: Talk) -> None:
    conversation.is_told(CALL)
    conversation.waits(20.0)
    heartbeat = encode(call("Core", "Heartbeat", call_id=UNSTAMPED_CALL_ID))
    stamps = (call_id_offset(heartbeat),)
    conversation.delivers(delivery(heartbeat, Kind.PROGRESS, request=CALL_ID, stamps=stamps))
    (said,) = conversation.answers()
    assert isinstance(said, Call)
    assert (said.component, said.method) == ("Core", "Heartbeat")
    conversation.waits(20.0)
    assert conversation.answers() == []
    conversation.waits(10.0)
    assert len(conversation.answers()) == 1


def test_a_call_id_that_is_open_is_logged_once_more_and_answered_once(conversation: Talk) -> None:
    done = conversation.is_told(CALL, CALL)
    assert [action.data for action in done if isinstance(action, FramesReceived)] == [encode(CALL)] * 2
    conversation.waits(30.0)
    assert conversation.answers() == [RemoteError("Core", RemoteErrorCode.RESPONSE, CALL_ID)]


def test_one_open_call_too_many_is_refused(monkeypatch: pytest.MonkeyPatch, conversation: Talk) -> None:
    monkeypatch.setattr(type(conversation.session), "max_open_requests", 1)
    conversation.is_told(CALL, call("Core", "other", call_id=OTHER_CALL_ID))
    assert conversation.answers() == [RemoteError("Core", RemoteErrorCode.REQUEST, OTHER_CALL_ID)]
    assert refused(conversation) == [Reason.OVERLOAD]


def test_an_error_that_no_call_caused_is_logged(conversation: Talk) -> None:
    error = RemoteError("Core", 100)
    assert only(FramesReceived, conversation.is_told(error)).data == encode(error)
    assert conversation.answers() == []


def test_a_refused_call_is_confirmed_before_it_hears_why(monkeypatch: pytest.MonkeyPatch, conversation: Talk) -> None:
    monkeypatch.setattr(type(conversation.session), "max_open_requests", 0)
    conversation.is_told(CALL)
    assert [said.partition(b";")[0] for said in conversation.says()] == [b"result:0", b"message_id:1"]

"""RemoteMethodCall to the peer: whose answer its RemoteMethodResponse or RemoteError is."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.protocols.actions import AbandonRequests, Delivered, FrameRefused, FramesReceived, Outcome
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import Call, CallResponse, Message, RemoteError, RemoteErrorCode
from gateway.protocols.wolpertinger.mapping import UNSTAMPED_CALL_ID
from tests.unit.protocols.contract.conversation import asked_by, delivery, only
from tests.unit.protocols.wolpertinger.talk import (
    CALL,
    CALL_ID,
    HEARTBEAT,
    STAMPS,
    UNSTAMPED,
    Talk,
    line,
    serve,
    talk,
    text,
)


@pytest.mark.parametrize("answer", [CallResponse("Core", "", text("b")), RemoteError("Core", 303, "")])
@pytest.mark.parametrize("upper", [False, True])
def test_an_answer_of_the_peer_is_logged_with_who_asked(answer: CallResponse | RemoteError, upper: bool) -> None:
    conversation = talk()
    reply = asked_by()
    call_id = serve(conversation, reply)
    said = encode(replace(answer, call_id=call_id.upper() if upper else call_id))
    logged = only(FramesReceived, conversation.is_told(said))
    assert (logged.data, logged.replies) == (said, (reply,))
    again = conversation.is_told(said)
    assert only(FrameRefused, again).reason is Reason.TIMEOUT


def test_an_answer_is_logged_after_what_came_before_it(conversation: Talk) -> None:
    reply = asked_by()
    answer = CallResponse("Core", serve(conversation, reply))
    messages: list[Message] = [CALL, answer, HEARTBEAT]
    lines = [line(encode(message), at) for at, message in enumerate(messages, 10)]
    done = [action for action in conversation.receives(b"".join(lines)) if isinstance(action, FramesReceived)]
    assert [(action.data, action.replies) for action in done] == [(encode(CALL), ()), (encode(answer), (reply,))]


def test_each_call_to_the_peer_has_a_call_id_of_its_own(conversation: Talk) -> None:
    asked = [serve(conversation, asked_by(request)) for request in ("r1", "r2")]
    conversation.delivers(delivery(UNSTAMPED, stamps=STAMPS))
    (event,) = conversation.answers()
    assert isinstance(event, Call)
    assert len({*asked, event.call_id, UNSTAMPED_CALL_ID}) == 4
    assert [UUID(call_id).version for call_id in (*asked, event.call_id)] == [4, 4, 8]


@pytest.mark.parametrize("answer", [CallResponse("Core", ""), RemoteError("Core", 304)])
def test_what_a_peer_answers_to_an_event_is_nothing(answer: CallResponse | RemoteError, conversation: Talk) -> None:
    conversation.delivers(delivery(UNSTAMPED, stamps=STAMPS))
    (event,) = conversation.answers()
    assert isinstance(event, Call)
    assert conversation.is_told(replace(answer, call_id=event.call_id)) == []
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_an_answer_to_no_call_is_confirmed_dropped_and_counted(conversation: Talk) -> None:
    done = conversation.is_told(CallResponse("Core", CALL_ID))
    assert only(FrameRefused, done).reason is Reason.TIMEOUT
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_an_answer_that_is_none_ends_the_call_at_once(conversation: Talk) -> None:
    reply = asked_by()
    call_id = serve(conversation, reply)
    nonsense = encode(CallResponse("Core", call_id, text("b"))).replace(b'"string"', b'"int32"')
    done = conversation.is_told(nonsense)
    assert only(AbandonRequests, done) == AbandonRequests((reply,), MeshError.INTERNAL)
    assert only(FramesReceived, done).replies == ()
    assert conversation.answers() == [RemoteError("Core", RemoteErrorCode.INVALID_RESPONSE, call_id)]


def test_a_cancel_is_lost_and_the_answer_still_counts(conversation: Talk) -> None:
    reply = asked_by()
    call_id = serve(conversation, reply)
    done = conversation.delivers(delivery(b"", Kind.CANCEL, reply=reply))
    assert only(Delivered, done).outcome is Outcome.WRITTEN
    assert conversation.says() == []
    assert only(FramesReceived, conversation.is_told(CallResponse("Core", call_id))).replies == (reply,)


def test_calls_that_are_open_when_the_session_ends_are_abandoned(conversation: Talk) -> None:
    reply = asked_by()
    serve(conversation, reply)
    conversation.session.receive_eof()
    assert only(AbandonRequests, conversation.acts()).replies == (reply,)

"""Layer 2 in the session: whose call it is, whose answer, and what is said without the router."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from uuid import UUID

import pytest

from gateway.event import Kind
from gateway.protocols.session import (
    Action,
    Delivered,
    Farewell,
    FrameRefused,
    FramesReceived,
    Opened,
    Outcome,
    RequestEnded,
    RequestsAbandoned,
)
from gateway.protocols.wolpertinger.codec import call_id_offset, encode
from gateway.protocols.wolpertinger.codec import decode as decode_message
from gateway.protocols.wolpertinger.frames import (
    ANSWERED_TO_NOBODY,
    Call,
    ErrorCode,
    Message,
    Piece,
    RemoteError,
    Response,
)
from gateway.protocols.wolpertinger.mapping import UNSTAMPED_CALL_ID
from gateway.protocols.wolpertinger.objects import from_json
from gateway.protocols.wolpertinger.session import FEW_OPEN_CALLS, PROGRESS_PER_SECOND
from gateway.protocols.wolpertinger.transmission import decode, pack, unpack
from gateway.protocols.wolpertinger.transmission import encode as encode_pieces
from gateway.raw_log.frames import ReplyAddress
from gateway.reasons import MeshError, Reason
from tests.unit.contract.conversation import asked_by, delivery, only
from tests.unit.wolpertinger.talk import CALL_ID, OTHER_CALL_ID, Talk, call, confirmations, talk, text

CALL = call("Core", "testMethod1", text("a"))
HEARTBEAT = call("core", "HEARTBEAT", call_id=OTHER_CALL_ID)
UNSTAMPED = encode(call("Core", "testMethod1", call_id=UNSTAMPED_CALL_ID))
STAMPS = (call_id_offset(UNSTAMPED),)


def refused(conversation: Talk) -> list[Reason]:
    return [action.reason for action in conversation.said if isinstance(action, FrameRefused)]


def serve(conversation: Talk, reply: ReplyAddress) -> str:
    """The peer is asked; its CallId."""
    conversation.delivers(delivery(UNSTAMPED, Kind.REQUEST, stamps=STAMPS, reply=reply))
    (asked,) = conversation.answers()
    assert isinstance(asked, Call)
    return asked.call_id


# -- calls of the peer ---------------------------------------------------------------------------------------------


def test_a_session_is_open_from_its_start() -> None:
    assert only(Opened, talk().said).facts == {}


def test_a_call_is_logged_as_xml_and_answered_by_the_router() -> None:
    conversation = talk()
    logged = only(FramesReceived, conversation.is_told(CALL))
    assert (logged.data, logged.replies) == (encode(CALL), ())
    answer = Response("Core", CALL_ID, text("b"))
    done = conversation.delivers(delivery(encode(answer), Kind.RESPONSE, request=CALL_ID))
    assert only(RequestEnded, done).outcome == "response"
    assert conversation.answers() == [answer]


def test_a_call_is_confirmed_before_its_answer_though_the_answer_is_quicker_than_the_log() -> None:
    conversation = talk()
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    assert conversation.says() == []
    conversation.delivers(delivery(encode(Response("Core", CALL_ID, text("b"))), Kind.RESPONSE, request=CALL_ID))
    confirmed, answered = conversation.says()
    assert confirmations([confirmed]) == [(1, 0)]
    assert confirmations([answered]) == []
    conversation.logs(logged.tag)
    assert conversation.says() == []


def test_what_came_with_an_answered_call_is_confirmed_with_the_log() -> None:
    conversation = talk()
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


def test_a_call_id_is_kept_as_the_peer_wrote_it() -> None:
    conversation = talk()
    conversation.is_told(call("Core", "testMethod1", call_id=CALL_ID.upper()))
    late = conversation.delivers(delivery(b"x", Kind.RESPONSE, request=CALL_ID))
    assert only(Delivered, late).outcome is Outcome.EXPIRED
    right = conversation.delivers(delivery(b"x", Kind.RESPONSE, request=CALL_ID.upper()))
    assert only(RequestEnded, right).outcome == "response"


def test_a_call_that_is_an_event_is_forgotten_and_hears_nothing() -> None:
    conversation = talk()
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
    assert conversation.answers() == [RemoteError("Core", ErrorCode.RESPONSE, CALL_ID)]


def test_a_control_call_without_an_answer_in_time_hears_of_the_meshs_component() -> None:
    conversation = talk()
    conversation.is_told(call("MESH", "subscribe", text("a.>")))
    conversation.waits(30.0)
    assert conversation.answers() == [RemoteError("Mesh", ErrorCode.RESPONSE, CALL_ID)]


def test_progress_keeps_a_call_open_and_reaches_the_caller_as_a_heartbeat() -> None:
    conversation = talk()
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


def test_a_call_id_that_is_open_is_logged_once_more_and_answered_once() -> None:
    conversation = talk()
    done = conversation.is_told(CALL, CALL)
    assert [action.data for action in done if isinstance(action, FramesReceived)] == [encode(CALL)] * 2
    conversation.waits(30.0)
    assert conversation.answers() == [RemoteError("Core", ErrorCode.RESPONSE, CALL_ID)]


def test_one_open_call_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()
    monkeypatch.setattr(type(conversation.session), "max_open_requests", 1)
    conversation.is_told(CALL, call("Core", "other", call_id=OTHER_CALL_ID))
    assert conversation.answers() == [RemoteError("Core", ErrorCode.REQUEST, OTHER_CALL_ID)]
    assert refused(conversation) == [Reason.OVERLOAD]


def test_an_error_that_no_call_caused_is_logged() -> None:
    conversation = talk()
    error = RemoteError("Core", 100)
    assert only(FramesReceived, conversation.is_told(error)).data == encode(error)
    assert conversation.answers() == []


def test_a_refused_call_is_confirmed_before_it_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()
    monkeypatch.setattr(type(conversation.session), "max_open_requests", 0)
    conversation.is_told(CALL)
    assert [said.partition(b";")[0] for said in conversation.says()] == [b"result:0", b"message_id:1"]


# -- calls to the peer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [Response("Core", "", text("b")), RemoteError("Core", 303, "")])
@pytest.mark.parametrize("upper", [False, True])
def test_an_answer_of_the_peer_is_logged_with_who_asked(answer: Response | RemoteError, upper: bool) -> None:
    conversation = talk()
    reply = asked_by()
    call_id = serve(conversation, reply)
    said = encode(replace(answer, call_id=call_id.upper() if upper else call_id))
    logged = only(FramesReceived, conversation.is_told(said))
    assert (logged.data, logged.replies) == (said, (reply,))
    again = conversation.is_told(said)
    assert only(FrameRefused, again).reason is Reason.TIMEOUT


def test_an_answer_is_logged_after_what_came_before_it() -> None:
    conversation = talk()
    reply = asked_by()
    answer = Response("Core", serve(conversation, reply))
    messages: list[Message] = [CALL, answer, HEARTBEAT]
    lines = [line(encode(message), at) for at, message in enumerate(messages, 10)]
    done = [action for action in conversation.receives(b"".join(lines)) if isinstance(action, FramesReceived)]
    assert [(action.data, action.replies) for action in done] == [(encode(CALL), ()), (encode(answer), (reply,))]


def line(data: bytes, message_id: int) -> bytes:
    return b"message_id:%d;" % message_id + b64encode(data) + b"\n"


def test_each_call_to_the_peer_has_a_call_id_of_its_own() -> None:
    conversation = talk()
    asked = [serve(conversation, asked_by(request)) for request in ("r1", "r2")]
    conversation.delivers(delivery(UNSTAMPED, stamps=STAMPS))
    (event,) = conversation.answers()
    assert isinstance(event, Call)
    assert len({*asked, event.call_id, UNSTAMPED_CALL_ID}) == 4
    assert [UUID(call_id).version for call_id in (*asked, event.call_id)] == [4, 4, 8]


@pytest.mark.parametrize("answer", [Response("Core", ""), RemoteError("Core", 304)])
def test_what_a_peer_answers_to_an_event_is_nothing(answer: Response | RemoteError) -> None:
    conversation = talk()
    conversation.delivers(delivery(UNSTAMPED, stamps=STAMPS))
    (event,) = conversation.answers()
    assert isinstance(event, Call)
    assert conversation.is_told(replace(answer, call_id=event.call_id)) == []
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_an_answer_to_no_call_is_confirmed_dropped_and_counted() -> None:
    conversation = talk()
    done = conversation.is_told(Response("Core", CALL_ID))
    assert only(FrameRefused, done).reason is Reason.TIMEOUT
    assert conversation.says() == [b"result:0;message_id:1;"]


def test_an_answer_that_is_none_ends_the_call_at_once() -> None:
    conversation = talk()
    reply = asked_by()
    call_id = serve(conversation, reply)
    nonsense = encode(Response("Core", call_id, text("b"))).replace(b'"string"', b'"int32"')
    done = conversation.is_told(nonsense)
    assert only(RequestsAbandoned, done) == RequestsAbandoned((reply,), MeshError.INTERNAL)
    assert only(FramesReceived, done).replies == ()
    assert conversation.answers() == [RemoteError("Core", ErrorCode.INVALID_RESPONSE, call_id)]


def test_a_cancel_is_lost_and_the_answer_still_counts() -> None:
    conversation = talk()
    reply = asked_by()
    call_id = serve(conversation, reply)
    done = conversation.delivers(delivery(b"", Kind.CANCEL, reply=reply))
    assert only(Delivered, done).outcome is Outcome.WRITTEN
    assert conversation.says() == []
    assert only(FramesReceived, conversation.is_told(Response("Core", call_id))).replies == (reply,)


def test_calls_that_are_open_when_the_session_ends_are_abandoned() -> None:
    conversation = talk()
    reply = asked_by()
    serve(conversation, reply)
    conversation.session.receive_eof(conversation.now)
    assert only(RequestsAbandoned, conversation.acts()).replies == (reply,)


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_a_heartbeat_is_progress_of_every_call_that_is_open_at_the_peer() -> None:
    conversation = talk()
    replies = tuple(asked_by(request) for request in ("r1", "r2", "r3"))
    call_ids = [serve(conversation, reply) for reply in replies]
    conversation.is_told(Response("Core", call_ids[1]))
    logged = only(FramesReceived, conversation.is_told(HEARTBEAT))
    assert (logged.data, logged.replies) == (encode(HEARTBEAT), (replies[0], replies[2]))
    assert conversation.session._served_reply(call_ids[0]) == replies[0]


def test_a_heartbeat_for_nothing_is_confirmed_and_no_call() -> None:
    conversation = talk()
    assert conversation.is_told(HEARTBEAT) == []
    assert conversation.says() == [b"result:0;message_id:1;"]
    conversation.waits(100.0)
    assert conversation.answers() == []


def heartbeats(conversation: Talk, number: int) -> int:
    """How many of so many were passed on."""
    done: list[Action] = conversation.is_told(*[HEARTBEAT] * number)
    return sum(isinstance(action, FramesReceived) for action in done)


def test_heartbeats_for_many_calls_are_passed_on_only_so_often() -> None:
    conversation = talk()
    for number in range(FEW_OPEN_CALLS):
        serve(conversation, asked_by(f"r{number}"))
    assert heartbeats(conversation, 3) == 3
    serve(conversation, asked_by("one more"))
    assert heartbeats(conversation, 3) == 1
    conversation.waits((FEW_OPEN_CALLS + 1) / PROGRESS_PER_SECOND)
    assert heartbeats(conversation, 3) == 1


# -- broken XML ----------------------------------------------------------------------------------------------------

BROKEN = [
    (b"hello", RemoteError("Core", 301)),
    (b"<Hello/>", RemoteError("Core", 302)),
    (encode(CALL).replace(b"MethodName", b"Method"), RemoteError("Core", 301, CALL_ID)),
    (encode(CALL).replace(b'"string"', b'"int32"'), RemoteError("Core", 305, CALL_ID)),
    (encode(RemoteError("Files", 500)).replace(b"500", b"many"), RemoteError("Files", 301)),
]


@pytest.mark.parametrize(("data", "error"), BROKEN)
def test_broken_xml_is_logged_and_answered_once_the_log_has_it(data: bytes, error: RemoteError) -> None:
    conversation = talk()
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(data))
    assert logged.data == data
    assert conversation.says() == []
    conversation.logs(logged.tag)
    assert conversation.answers() == [error]
    conversation.waits(100.0)
    assert conversation.answers() == []
    assert conversation.ended is None


def test_the_confirmation_goes_before_the_error() -> None:
    conversation = talk()
    assert [line.split(b";")[0] for line in conversation.hears(b"message_id:7;aGVsbG8=")] == [
        b"result:0",
        b"message_id:1",
    ]


# -- the end -------------------------------------------------------------------------------------------------------


def test_a_session_that_waits_for_nothing_drains_at_once() -> None:
    conversation = talk()
    conversation.session.drain(conversation.now)
    assert conversation.ended == "drain"


def test_a_draining_session_confirms_what_is_logged_and_takes_no_more() -> None:
    conversation = talk()
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    conversation.session.drain(conversation.now, None, Farewell.KICKED)
    assert conversation.is_told(call("Core", "other", call_id=OTHER_CALL_ID)) == []
    assert conversation.ended is None
    conversation.logs(logged.tag)
    assert conversation.says() == [b"result:0;message_id:1;"]
    assert conversation.ended == "kicked"


def test_what_was_received_is_logged_though_the_session_ends_in_the_same_read() -> None:
    conversation = talk(frame_bytes=100)
    conversation.receives(line(b"hello", 1) + b"A" * 100_000)
    assert conversation.ended == "too_large"
    assert only(FramesReceived, conversation.said).data == b"hello"


def test_a_log_that_comes_after_the_end_is_nothing() -> None:
    conversation = talk()
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    conversation.session.receive_eof(conversation.now)
    conversation.acts()
    assert conversation.logs(logged.tag) == []
    assert conversation.says() == []


def test_an_idle_session_is_not_woken_for_a_keepalive_that_does_not_exist() -> None:
    conversation = talk(ping_seconds=30.0)
    conversation.waits(30.0)
    assert conversation.session.get_timer() is None
    conversation.is_told(CALL)
    conversation.delivers(delivery(encode(Response("Core", CALL_ID, from_json(1))), Kind.RESPONSE, request=CALL_ID))
    conversation.answers()
    assert conversation.session.get_timer() is None


class TestWhoHasDialled:
    """No listener need take it for silent."""

    def beats(self, conversation: Talk) -> list[bytes]:
        """The heartbeats that went out, as the lines they are."""
        lines = conversation.says()
        for line in lines:
            piece = decode(line)
            assert isinstance(piece, Piece)
            asked = decode_message(unpack(piece, None, 1 << 20))
            assert isinstance(asked, Call)
            assert (asked.component, asked.method) == ("Core", "Heartbeat")
            assert UUID(asked.call_id).version == ANSWERED_TO_NOBODY
        return lines

    def test_says_that_it_is_there_as_often_as_it_would_ping(self) -> None:
        conversation = talk(dialled=True, ping_seconds=30.0)
        for at in (1, 2, 3):
            conversation.waits(30.0)
            assert len(self.beats(conversation)) == 1
            conversation.receives(b"result:0;message_id:%d;\n" % at)
        assert conversation.ended is None

    def test_says_nothing_while_calls_are_open_that_would_take_it_for_progress(self) -> None:
        conversation = talk(dialled=True, ping_seconds=30.0)
        call_id = serve(conversation, asked_by())
        conversation.waits(30.0)
        assert self.beats(conversation) == []
        conversation.is_told(Response("Core", call_id))
        conversation.says()
        conversation.waits(30.0)
        assert len(self.beats(conversation)) == 1

    def test_leaves_a_peer_that_never_confirms_it(self) -> None:
        conversation = talk({"confirm_seconds": 20.0}, dialled=True, ping_seconds=30.0)
        for _ in range(4):
            conversation.waits(30.0)
        assert len(set(self.beats(conversation))) == 1
        assert conversation.ended == "timeout"

"""The method Heartbeat: of the peer, as progress of its calls, and ours, from a session that has dialled."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import Action, FramesReceived
from gateway.protocols.wolpertinger.codec import decode as decode_message
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import ANSWERED_TO_NOBODY, Call, CallResponse, Piece
from gateway.protocols.wolpertinger.objects import from_json
from gateway.protocols.wolpertinger.session import FEW_OPEN_CALLS, HEARTBEAT_BYTES, PROGRESS_PER_SECOND
from gateway.protocols.wolpertinger.transmission import decode, unpack
from tests.unit.protocols.contract.conversation import asked_by, delivery, only
from tests.unit.protocols.wolpertinger.talk import (
    CALL,
    CALL_ID,
    HEARTBEAT,
    OTHER_CALL_ID,
    Talk,
    call,
    refused,
    serve,
    talk,
    text,
)


def test_a_heartbeat_is_progress_of_every_call_that_is_open_at_the_peer(conversation: Talk) -> None:
    replies = tuple(asked_by(request) for request in ("r1", "r2", "r3"))
    call_ids = [serve(conversation, reply) for reply in replies]
    conversation.is_told(CallResponse("Core", call_ids[1]))
    logged = only(FramesReceived, conversation.is_told(HEARTBEAT))
    assert (logged.data, logged.replies) == (encode(HEARTBEAT), (replies[0], replies[2]))
    assert conversation.session._served_requests.get(call_ids[0]) == replies[0]


def test_a_heartbeat_for_nothing_is_confirmed_and_no_call(conversation: Talk) -> None:
    assert conversation.is_told(HEARTBEAT) == []
    assert conversation.says() == [b"result:0;message_id:1;"]
    conversation.waits(100.0)
    assert conversation.answers() == []


def heartbeats(conversation: Talk, number: int) -> int:
    """Returns how many of so many were passed on."""
    done: list[Action] = conversation.is_told(*[HEARTBEAT] * number)
    return sum(isinstance(action, FramesReceived) for action in done)


def test_heartbeats_for_many_calls_are_passed_on_only_so_often(conversation: Talk) -> None:
    for number in range(FEW_OPEN_CALLS):
        serve(conversation, asked_by(f"r{number}"))
    assert heartbeats(conversation, 3) == 3
    serve(conversation, asked_by("one more"))
    assert heartbeats(conversation, 3) == 1
    conversation.waits((FEW_OPEN_CALLS + 1) / PROGRESS_PER_SECOND)
    assert heartbeats(conversation, 3) == 1


@pytest.mark.parametrize(("over", "passed_on"), [(0, 1), (1, 0)])
def test_a_heartbeat_has_little_to_say_for_it_is_copied_to_many(over: int, passed_on: int, conversation: Talk) -> None:
    serve(conversation, asked_by("r1"))
    room = HEARTBEAT_BYTES - len(encode(call("core", "HEARTBEAT", text(""), call_id=OTHER_CALL_ID)))
    long = call("core", "HEARTBEAT", text("x" * (room + over)), call_id=OTHER_CALL_ID)
    done = conversation.is_told(long)
    assert sum(isinstance(action, FramesReceived) for action in done) == passed_on
    assert refused(conversation) == [Reason.TOO_LARGE] * (1 - passed_on)
    assert conversation.says() == [b"result:0;message_id:1;"]


# -- ours -------------------------------------------------------------------------------------------------------------


def test_an_idle_session_is_not_woken_for_a_keepalive_that_does_not_exist() -> None:
    conversation = talk(ping_seconds=30.0)
    conversation.waits(30.0)
    assert conversation.session.get_timer() is None
    conversation.is_told(CALL)
    conversation.delivers(delivery(encode(CallResponse("Core", CALL_ID, from_json(1))), Kind.RESPONSE, request=CALL_ID))
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
        conversation.is_told(CallResponse("Core", call_id))
        conversation.says()
        conversation.waits(30.0)
        assert len(self.beats(conversation)) == 1

    def test_leaves_a_peer_that_never_confirms_it(self) -> None:
        conversation = talk({"confirm_seconds": 20.0}, dialled=True, ping_seconds=30.0)
        for _ in range(4):
            conversation.waits(30.0)
        assert len(set(self.beats(conversation))) == 1
        assert conversation.ended == "timeout"

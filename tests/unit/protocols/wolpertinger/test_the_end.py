"""The end of a session: a drain, and what was on its way."""

from __future__ import annotations

from gateway.protocols.actions import CloseReason, FramesReceived
from tests.unit.protocols.contract.conversation import only
from tests.unit.protocols.wolpertinger.talk import CALL, OTHER_CALL_ID, Talk, call, line, talk


def test_a_session_that_waits_for_nothing_drains_at_once(conversation: Talk) -> None:
    conversation.session.drain(conversation.now)
    assert conversation.ended == "drain"


def test_a_draining_session_confirms_what_is_logged_and_takes_no_more(conversation: Talk) -> None:
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    conversation.session.drain(conversation.now, None, CloseReason.KICKED)
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


def test_a_log_that_comes_after_the_end_is_nothing(conversation: Talk) -> None:
    conversation.slow_log = True
    logged = only(FramesReceived, conversation.is_told(CALL))
    conversation.session.receive_eof()
    conversation.acts()
    assert conversation.logs(logged.tag) == []
    assert conversation.says() == []

"""Termination: by the peer's error, by our bye, or by an end of the stream in the midst of a message."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason
from gateway.protocols.actions import CloseReason, Terminated
from gateway.protocols.emp.codec import encode_error
from gateway.protocols.emp.frames import EmpErrorCode, Failure
from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.emp.talk import BYE, data, emp, failure


def test_an_error_of_the_peer_ends_the_session_and_a_part_of_its_words_is_kept(talk: Conversation) -> None:
    (end,) = talk.receives(encode_error(Failure(1, "x" * 60_000)))
    assert isinstance(end, Terminated)
    assert end.reason == "peer_error"
    assert len(end.detail) < 300
    assert talk.sends() == b""


@pytest.mark.parametrize("why", [CloseReason.DRAIN, CloseReason.KICKED])
def test_a_normal_end_says_bye(why: CloseReason, talk: Conversation) -> None:
    talk.session.drain(talk.now, None, why)
    assert (talk.sends(), talk.ended) == (BYE, why)


@pytest.mark.parametrize(
    ("why", "code", "text"),
    [
        (CloseReason.IDLE, EmpErrorCode.TIMEOUT, "nothing has come for too long"),
        (CloseReason.OVERLOAD, EmpErrorCode.UNSPECIFIED, "there are too many connections"),
        (CloseReason.NOT_LOGGED, EmpErrorCode.UNSPECIFIED, "what was sent could not be kept"),
        (CloseReason.INTERNAL, EmpErrorCode.UNSPECIFIED, "a fault of the mesh"),
        (CloseReason.OVER_BUDGET, EmpErrorCode.UNSPECIFIED, "too much was held for this session"),
    ],
)
def test_an_end_that_is_no_normal_one_says_why_in_an_error(why: CloseReason, code: EmpErrorCode, text: str) -> None:
    talk = emp()
    talk.session.drain(talk.now, None, why)
    assert failure(talk) == Failure(code, text)
    assert talk.ended == why


def test_a_stream_that_ends_inside_a_message_is_truncated(talk: Conversation) -> None:
    talk.receives(data()[:-1])
    talk.session.receive_eof()
    assert talk.ended == Reason.TRUNCATED

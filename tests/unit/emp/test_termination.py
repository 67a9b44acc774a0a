"""Termination: by the peer's error, by our bye, or by an end of the stream in the midst of a message."""

from __future__ import annotations

from gateway.protocols.emp.codec import encode_error
from gateway.protocols.emp.frames import Failure
from gateway.protocols.session import Terminated
from gateway.reasons import Reason
from tests.unit.emp.talk import BYE, data, emp


def test_an_error_of_the_peer_ends_the_session_and_a_part_of_its_words_is_kept() -> None:
    talk = emp()
    (end,) = talk.receives(encode_error(Failure(1, "x" * 60_000)))
    assert isinstance(end, Terminated)
    assert end.reason == "peer_error"
    assert len(end.detail) < 300
    assert talk.sends() == b""


def test_a_drain_says_bye() -> None:
    talk = emp()
    talk.session.drain(talk.now)
    assert (talk.sends(), talk.ended) == (BYE, "drain")


def test_a_stream_that_ends_inside_a_message_is_truncated() -> None:
    talk = emp()
    talk.receives(data()[:-1])
    talk.session.receive_eof(talk.now)
    assert talk.ended == Reason.TRUNCATED

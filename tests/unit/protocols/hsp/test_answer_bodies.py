"""A server that answers with a DATA of the mapped `reply_type` before its ACK: the DATA is the answer's body."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import FrameRefused
from gateway.protocols.hsp import answer_bodies
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import Command, Frame
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery, only, received
from tests.unit.protocols.hsp.talk import ack, data, data_ack, error, hsp

TYPES = {"types": {18: {"subject": "orders.create", "kind": "request", "reply_type": 19}}}
BODY, OTHER = data(19, b"a body"), data(19, b"another")


def asked(*requests: str) -> Conversation:
    """The peer has been asked, under the MessageIDs 1, 2 and so on."""
    talk = hsp(TYPES)
    for request in requests:
        talk.delivers(delivery(data_ack(0, 18), Kind.REQUEST, stamps=(1,), reply=asked_by(request)))
    talk.sends()
    return talk


def logged(talk: Conversation, stream: bytes) -> list[tuple[bytes, tuple[str, ...]]]:
    """Returns what is logged of these bytes, and whose answer it is."""
    return [(run.data, tuple(reply.request for reply in run.replies)) for run in received(talk.receives(stream))]


class TestTheBody:
    def test_it_is_logged_with_its_ack_as_one_frame(self) -> None:
        talk = asked("r1")
        assert logged(talk, data() + BODY) == [(data(), ())]
        (answer,) = received(talk.receives(ack(1)))
        assert (answer.data, answer.lengths, answer.replies) == (BODY + ack(1), (len(BODY) + 5,), (asked_by("r1"),))

    def test_the_first_body_belongs_to_the_first_ack(self) -> None:
        talk = asked("r1", "r2")
        assert logged(talk, BODY + OTHER + ack(2) + ack(1)) == [(BODY + ack(2), ("r2",)), (OTHER + ack(1), ("r1",))]

    def test_an_answer_without_it_is_only_an_ack(self) -> None:
        assert logged(asked("r1"), ack(1) + BODY) == [(ack(1), ("r1",)), (BODY, ())]

    def test_it_comes_in_any_pieces(self) -> None:
        talk, stream = asked("r1"), BODY + data() + ack(1) + data()
        pieces = [entry for at in range(len(stream)) for entry in logged(talk, stream[at : at + 1])]
        assert pieces == [(data(), ()), (BODY + ack(1), ("r1",)), (data(), ())]


class TestADataThatIsNoBody:
    def test_where_nobody_has_asked(self) -> None:
        assert logged(hsp(TYPES), BODY + data()) == [(BODY + data(), ())]

    def test_where_each_request_has_a_body(self) -> None:
        assert logged(asked("r1"), BODY + OTHER + ack(1)) == [(OTHER, ()), (BODY + ack(1), ("r1",))]

    @pytest.mark.parametrize("refusal", [error(1, "internal", "no"), encode(Frame(Command.ERROR_UNDEF, 1))])
    def test_where_the_request_was_refused(self, refusal: bytes) -> None:
        assert logged(asked("r1"), BODY + refusal) == [(BODY, ()), (refusal, ("r1",))]

    def test_where_the_session_ends_first(self) -> None:
        talk = asked("r1")
        talk.receives(BODY)
        talk.session.receive_eof()
        assert [run.data for run in received(talk.acts())] == [BODY]

    def test_where_too_many_bytes_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(answer_bodies, "MAX_HELD_BYTES", len(BODY) - 1)
        assert logged(asked("r1", "r2"), BODY + OTHER + ack(1)) == [(OTHER, ()), (BODY + ack(1), ("r1",))]


def test_the_body_of_a_late_answer_is_dropped_and_counted_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = hsp(TYPES)
    monkeypatch.setattr(type(talk.session), "max_open_requests", 1)
    for request in ("given up", "open"):
        talk.delivers(delivery(data_ack(0, 18), Kind.REQUEST, stamps=(1,), reply=asked_by(request)))
    actions = talk.receives(BODY + ack(1))
    assert only(FrameRefused, actions).reason is Reason.TIMEOUT
    assert received(actions) == []
    assert logged(talk, OTHER + ack(2)) == [(OTHER + ack(2), ("open",))]

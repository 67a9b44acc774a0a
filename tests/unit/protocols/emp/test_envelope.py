"""The mesh's envelope in the session: what contradicts its message, and what is known by sight."""

from __future__ import annotations

from typing import cast

import pytest

from gateway.core.envelope import MAX_CONTENT_TYPE_BYTES, Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.protocols.actions import FramesReceived
from gateway.protocols.emp.extensions import compression_block
from gateway.protocols.emp.frames import Block, MessageType, Scheme
from gateway.protocols.emp.session import MAX_NAMES, EmpSession
from gateway.records.link_trail import LinkTrail
from tests.refusals import reason_of
from tests.unit.protocols.contract.conversation import Conversation, only
from tests.unit.protocols.emp.talk import GZIP, data, envelope, failure, request, response

MISMATCHES = {
    "kind request without its block": data(b"", envelope(Kind.REQUEST, 1)),
    "kind response without its block": data(b"", envelope(Kind.RESPONSE, 1)),
    "kind event with a request's block": request(1, b"", envelope(Kind.EVENT)),
    "kind progress with a response's block": response(1, b"", envelope(Kind.PROGRESS, 1)),
    "kind request with a response's block": response(1, b"", envelope(Kind.REQUEST, 1)),
    "another correlation": request(1, b"", envelope(Kind.REQUEST, 2)),
    "two envelopes": data(b"", envelope(Kind.EVENT), envelope(Kind.EVENT)),
    "more than a head": data(b"", Block(128, Envelope(Kind.EVENT, 0, "a").encode() + b"x")),
}


@pytest.mark.parametrize("message", MISMATCHES.values(), ids=MISMATCHES)
def test_an_envelope_that_contradicts_its_message_is_a_bad_block(message: bytes, talk: Conversation) -> None:
    talk.receives(message)
    assert (failure(talk).extension, talk.ended) == (128, Reason.MALFORMED)


def test_a_content_type_has_a_limit(talk: Conversation) -> None:
    """Its bytes are written here by hand, because none that is too long can be encoded."""
    longest = Envelope(Kind.EVENT, 0, "a", "x" * MAX_CONTENT_TYPE_BYTES).encode()
    head = longest[: -MAX_CONTENT_TYPE_BYTES - 2]
    too_long = head + (MAX_CONTENT_TYPE_BYTES + 1).to_bytes(2) + b"x" * (MAX_CONTENT_TYPE_BYTES + 1)
    assert only(FramesReceived, talk.receives(data(b"", Block(128, longest)))).lengths
    talk.receives(data(b"", Block(128, too_long)))
    assert (failure(talk).extension, talk.ended) == (128, Reason.TOO_LARGE)


def test_a_content_type_that_a_link_would_make_too_long_does_not_go_over_it() -> None:
    fits = "x" * (MAX_CONTENT_TYPE_BYTES - len(LinkTrail("0a0b0c", 1).on_content_type("x")) + 1)
    assert Envelope(Kind.EVENT, 0, "a", LinkTrail("0a0b0c", 1).on_content_type(fits)).encode()
    too_long = Envelope(Kind.EVENT, 0, "a", LinkTrail("0a0b0c", 1).on_content_type(fits + "x"))
    assert reason_of(too_long.encode) is Reason.TOO_LARGE


class TestNamesKnownBySight:
    """An envelope that was understood once is taken by sight from then on; nothing else may pass for it."""

    NAMED = data(b"x", envelope(Kind.EVENT))

    def test_they_are_logged_like_the_first(self, talk: Conversation) -> None:
        run = only(FramesReceived, talk.receives(self.NAMED * 3 + data(b"", envelope(Kind.EVENT), type_=200)))
        assert run.lengths == (len(self.NAMED),) * 3 + (len(self.NAMED) - 1,)

    def test_on_a_message_without_data_the_same_block_is_still_an_error(self, talk: Conversation) -> None:
        talk.receives(self.NAMED + data(b"x", envelope(Kind.EVENT), type_=MessageType.PING))
        assert failure(talk).extension == 128

    def test_with_another_block_behind_it_the_message_is_looked_at(self, talk: Conversation) -> None:
        talk.receives(self.NAMED)
        talk.receives(data(b"no gzip", envelope(Kind.EVENT), GZIP))
        assert failure(talk).extension == 1

    def test_what_was_said_beside_it_is_not_known_with_it(self, talk: Conversation) -> None:
        talk.receives(data(b"x", envelope(Kind.EVENT), compression_block(Scheme.IDENTITY)))
        talk.receives(data(b"no gzip", envelope(Kind.EVENT), GZIP))
        assert failure(talk).extension == 1

    @pytest.mark.parametrize("size", [15, 16, 20, 24, 40])
    def test_a_message_cut_short_under_a_known_name_is_broken(self, size: int, talk: Conversation) -> None:
        talk.receives(self.NAMED)
        talk.receives(size.to_bytes(4, "big") + self.NAMED[4:size])
        assert talk.ended == Reason.MALFORMED

    def test_requests_and_cancels_are_never_known_by_sight(self, talk: Conversation) -> None:
        talk.receives(request(1, b"x", envelope(Kind.REQUEST, 1)) + data(b"", envelope(Kind.CANCEL, 1)) + self.NAMED)
        assert len(cast(EmpSession, talk.session)._names) == 1
        talk.receives(request(1, b"x", envelope(Kind.REQUEST, 1)))
        assert talk.ended == Reason.MALFORMED

    def test_only_so_many_and_only_short_ones_are_remembered(self, talk: Conversation) -> None:
        for number in range(MAX_NAMES + 10):
            talk.receives(data(b"x", envelope(Kind.EVENT, subject=f"temp.{number}")))
        assert len(cast(EmpSession, talk.session)._names) <= MAX_NAMES
        long_name = data(b"x", envelope(Kind.EVENT, subject="x" * 600))
        assert only(FramesReceived, talk.receives(long_name * 2)).lengths == (len(long_name),) * 2
        assert max(map(len, cast(EmpSession, talk.session)._names)) < 600
        talk.receives(bytes.fromhex("00000008 05800000"))
        assert talk.ended == Reason.MALFORMED

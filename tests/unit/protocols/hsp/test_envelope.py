"""The mesh's envelope in the session: who speaks it, and what the hot loop takes at a glance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.core.envelope import KINDS, MAX_CONTENT_TYPE_BYTES, Envelope
from gateway.core.envelope import decode as decode_envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason
from gateway.core.subjects import is_control
from gateway.protocols.actions import Opened
from gateway.protocols.hsp.codec import is_plain_event
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command
from tests.refusals import reason_of
from tests.unit.protocols.contract.conversation import Conversation, only
from tests.unit.protocols.hsp.talk import data, data_ack, enveloped, frames, hsp


class TestEnvelopeFacts:
    def test_the_first_envelope_of_the_peer_is_told_once(self, talk: Conversation) -> None:
        talk.receives(data())
        actions = talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.EVENT)) * 2)
        assert only(Opened, actions).facts == {"envelope": True}
        assert not any(
            isinstance(action, Opened) for action in talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.EVENT)))
        )

    def test_a_broken_one_tells_nothing(self, talk: Conversation) -> None:
        talk.acts()
        assert not any(isinstance(action, Opened) for action in talk.receives(data(ENVELOPE_TYPE, b"\x01")))

    def test_it_is_a_fact_from_the_start_where_the_listener_says_so(self) -> None:
        assert only(Opened, hsp({"envelope": "always"}).acts()).facts == {"envelope": True}


def test_a_content_type_has_a_limit(talk: Conversation) -> None:
    talk.receives(data(ENVELOPE_TYPE, enveloped(Kind.EVENT)))
    longest = Envelope(Kind.EVENT, 0, "a", "x" * MAX_CONTENT_TYPE_BYTES).encode()
    head = longest[: -MAX_CONTENT_TYPE_BYTES - 2]
    too_long = head + (MAX_CONTENT_TYPE_BYTES + 1).to_bytes(2) + b"x" * (MAX_CONTENT_TYPE_BYTES + 1)
    assert is_plain_event(bytearray(longest), 0, len(longest))
    assert not is_plain_event(bytearray(too_long), 0, len(too_long))
    talk.receives(data_ack(7, ENVELOPE_TYPE, too_long))
    assert frames(talk.sends())[-1].command is Command.ERROR
    assert reason_of(decode_envelope, too_long) is Reason.TOO_LARGE


@given(
    st.builds(Envelope, st.sampled_from(KINDS), st.sampled_from([0, 1]), st.text(max_size=8), st.text(max_size=8)),
    st.dictionaries(st.integers(0, 40), st.integers(0, 255), max_size=2),
    st.integers(0, 40),
)
@profile(max_examples=500, deadline=None)
def test_the_glance_takes_no_envelope_that_the_router_would_refuse(
    head: Envelope, changed: dict[int, int], cut: int
) -> None:
    payload = bytearray(head.encode() + b"body")
    for at, value in changed.items():
        payload[at % len(payload)] = value
    del payload[max(len(payload) - cut, 0) :]
    if is_plain_event(payload + enveloped(Kind.EVENT), 0, len(payload)):
        found, _ = decode_envelope(bytes(payload))
        assert (found.kind, is_control(found.subject)) == (Kind.EVENT, False)

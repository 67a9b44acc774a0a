"""Tests what holds for the bytes of every stream protocol, however they are cut, and whatever they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.actions import (
    AbandonRequests,
    CloseReason,
    Delivered,
    FrameRefused,
    FramesReceived,
    Opened,
    Outcome,
    Terminated,
)
from gateway.protocols.session import Session
from gateway.protocols.spec import ProtocolSpec
from gateway.records.raw_log.frames import FrameSource, RawFrame, ReplyAddress
from tests.unit.protocols.contract.conversation import Conversation, asked_by, delivery
from tests.unit.protocols.contract.pair import ENV, Pair, counted_token, cut_frames, said
from tests.unit.protocols.contract.streams import (
    GOES_ON,
    Examples,
    new_session,
)

ENDS = {*Reason, "bye", "eof", "drain", "peer_error", "redirect"} - {Reason.INTERNAL}
"""Why a session may end by what its peer says. `internal` would be a fault of ours."""

LIMIT = 2048


@dataclass
class Heard:
    """What a session made of a stream."""

    frames: list[bytes] = field(default_factory=list)
    refused: list[Reason] = field(default_factory=list)
    said: bytes = b""
    ended: str | None = None


def listening(spec: ProtocolSpec[Any], **changes: Any) -> Conversation:
    return Conversation(new_session(spec, token=counted_token(), **changes))


def hear(talk: Conversation, pieces: Iterable[bytes]) -> Heard:
    """Everything is logged only at the end, in order, so that no cut can change what is said when."""
    heard, tags = Heard(), []
    talk.acts()
    for piece in pieces:
        was_closed = talk.session.closed
        actions = talk.receives(piece)
        assert not (was_closed and actions)
        for action in actions:
            match action:
                case FramesReceived(lengths=lengths, tag=tag):
                    assert lengths
                    heard.frames += cut_frames(action)
                    tags += [] if tag is None else [tag]
                case FrameRefused(reason):
                    heard.refused.append(reason)
                case Terminated(reason):
                    assert action is actions[-1]
                    assert reason in ENDS
    assert len(set(tags)) == len(tags)
    for tag in tags:
        talk.logs(tag)
    heard.said, heard.ended = talk.sends(), talk.ended
    assert talk.session.closed == (heard.ended is not None)
    return heard


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[pos : pos + size] for pos in range(0, len(data), size)]


def cut_at(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.fixture(scope="module")
def tape(spec: ProtocolSpec[Any]) -> bytes:
    """All that a client of the protocol says who greets, sends events and asks."""
    pair = Pair(spec)
    for number, kind in enumerate([Kind.EVENT, Kind.REQUEST, Kind.EVENT, Kind.EVENT, Kind.REQUEST, Kind.EVENT]):
        pair.asks(said(kind, number=number)) if kind is Kind.REQUEST else pair.client.tells(said(kind, number=number))
        pair.exchange()
    assert len(pair.server.heard) == 6
    return pair.tape


class TestCuts:
    def test_one_byte_at_a_time_or_all_at_once_is_the_same(self, spec: ProtocolSpec[Any], tape: bytes) -> None:
        whole = hear(listening(spec), [tape])
        assert (len(whole.frames), whole.ended, whole.refused) == (6, None, [])
        assert hear(listening(spec), in_pieces(tape, 1)) == whole

    def test_a_cut_anywhere_is_the_same(self, spec: ProtocolSpec[Any], tape: bytes) -> None:
        whole = hear(listening(spec), [tape])
        for cut in range(1, len(tape)):
            assert hear(listening(spec), [tape[:cut], tape[cut:]]) == whole

    @pytest.mark.parametrize("slice_effort", [1, 700, 2_000])
    def test_a_slice_at_a_time_is_the_same(self, spec: ProtocolSpec[Any], tape: bytes, slice_effort: int) -> None:
        talk = listening(spec, slice_effort=slice_effort)
        assert hear(talk, [tape, *[b""] * len(tape)]) == hear(listening(spec), [tape])
        assert not talk.session.has_more

    def test_what_is_held_back_is_heard_with_the_next_read(self, spec: ProtocolSpec[Any], tape: bytes) -> None:
        talk = listening(spec)
        talk.session.hold_back(tape[:-1])
        assert talk.session.has_more
        assert talk.session.buffered_bytes == len(tape) - 1
        assert hear(talk, [tape[-1:]]) == hear(listening(spec), [tape])
        assert not talk.session.has_more

    @given(cuts=st.lists(st.integers(0, 1 << 16), max_size=12))
    @profile(max_examples=50, deadline=None)
    def test_any_cuts_are_the_same(self, spec: ProtocolSpec[Any], tape: bytes, cuts: list[int]) -> None:
        assert hear(listening(spec), cut_at(tape, cuts)) == hear(listening(spec), [tape])

    def test_a_stream_that_stops_anywhere_gives_the_frames_that_were_whole(
        self, spec: ProtocolSpec[Any], tape: bytes
    ) -> None:
        whole = hear(listening(spec), [tape])
        seen = 0
        for cut in range(len(tape)):
            talk = listening(spec)
            heard = hear(talk, [tape[:cut]])
            assert (heard.frames, heard.ended) == (whole.frames[: len(heard.frames)], None)
            assert len(heard.frames) >= seen
            seen = len(heard.frames)
            talk.session.receive_eof()
            assert talk.ended in ("eof", Reason.TRUNCATED)
        assert seen == 5


class TestGarbage:
    @given(noise=st.binary(max_size=300), size=st.integers(1, 300), greeted=st.booleans())
    @example(noise=b"", size=1, greeted=False)
    @profile(max_examples=100, deadline=None)
    def test_any_bytes_end_the_session_with_a_reason_or_do_not(
        self, spec: ProtocolSpec[Any], known: Examples, noise: bytes, size: int, greeted: bool
    ) -> None:
        talk = listening(spec)
        hear(talk, [known.opening] if greeted else [])
        check_events(spec, talk.session, hear(talk, in_pieces(noise, size)).frames)

    @given(
        changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6),
        cuts=st.lists(st.integers(0, 1 << 16), max_size=4),
    )
    @profile(max_examples=100, deadline=None)
    def test_so_do_almost_the_right_bytes(
        self,
        spec: ProtocolSpec[Any],
        tape: bytes,
        changes: list[tuple[int, int]],
        cuts: list[int],
    ) -> None:
        almost = bytearray(tape)
        for at, value in changes:
            almost[at % len(tape)] = value
        talk = listening(spec)
        check_events(spec, talk.session, hear(talk, cut_at(bytes(almost), cuts)).frames)

    @given(noise=st.binary(max_size=200), answers=st.booleans())
    @profile(max_examples=200, deadline=None)
    def test_a_frame_is_an_event_or_is_refused(self, spec: ProtocolSpec[Any], noise: bytes, answers: bool) -> None:
        check_events(spec, listening(spec).session, [noise], (asked_by(),) if answers else ())


def check_events(
    spec: ProtocolSpec[Any], session: Session, frames: list[bytes], replies: tuple[ReplyAddress, ...] = ()
) -> None:
    """What a session lets through is an event for the router, or is refused by it, and nothing else."""
    facts = next((action.facts for action in session.actions() if isinstance(action, Opened)), {"format": "json"})
    source = FrameSource(spec.name, "plc", "edge-0", 1, 3, facts={"format": "json"} | dict(facts))
    for frame in frames:
        try:
            event = spec.to_event(RawFrame(frame, source, 5, replies), "0-0-0", spec.options(), ENV)
        except Rejected:
            continue
        assert event.id == "0-0-0"


class TestLimits:
    def test_a_frame_at_the_limit_is_taken(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        talk = limited(spec, known)
        heard = hear(talk, [known.opening, known.sized(LIMIT)])
        assert (len(heard.frames), heard.refused, heard.ended) == (1, [], None)

    def test_one_beyond_it_is_refused_before_it_has_come(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        talk = limited(spec, known)
        hear(talk, [known.opening])
        head = known.refused_after(LIMIT)
        frame = known.sized(LIMIT + 1)
        before = hear(talk, in_pieces(frame[: head - 1], 1))
        assert (before.refused, before.ended) == ([], None)
        heard = hear(talk, [frame[head - 1 : head]])
        assert Reason.TOO_LARGE in (*heard.refused, heard.ended)
        assert hear(talk, [frame[head:]]).frames == []

    def test_nothing_is_kept_of_what_was_refused(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        talk = limited(spec, known)
        hear(talk, [known.opening, *in_pieces(known.sized(20 * LIMIT)[:-1], 100)])
        assert len(talk.session._buffer) < LIMIT


def limited(spec: ProtocolSpec[Any], known: Examples) -> Conversation:
    return Conversation(new_session(spec, known.limited(LIMIT), token=counted_token(), frame_bytes=LIMIT))


class TestTable:
    def test_every_frame_in_every_state_does_what_the_table_says(
        self, spec: ProtocolSpec[Any], known: Examples
    ) -> None:
        walked = {
            state: {name: end_of(spec, opening, frame) for name, frame in known.frames.items()}
            for state, opening in known.states.items()
        }
        assert walked == known.walk

    def test_after_the_end_nothing_is_heard_or_said(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        for frame in known.frames.values():
            talk = listening(spec)
            talk.receives(known.opening)
            talk.session.receive_eof()
            talk.acts()
            talk.sends()
            assert talk.receives(frame) == []
            assert talk.waits(1000) == []
            talk.session.receive_eof()
            assert (talk.acts(), talk.sends(), talk.session.get_timer()) == ([], b"", None)


def end_of(spec: ProtocolSpec[Any], opening: bytes, frame: bytes) -> str:
    talk = listening(spec)
    assert hear(talk, [opening]).ended is None
    return hear(talk, [frame]).ended or GOES_ON


class TestTime:
    def test_a_peer_that_says_nothing_is_waited_for_with_patience_and_not_in_circles(
        self, spec: ProtocolSpec[Any], known: Examples
    ) -> None:
        for opening in known.states.values():
            talk = listening(spec)
            talk.receives(opening)
            for _ in range(20):
                due = talk.session.get_timer()
                if due is None:
                    break
                assert due > talk.now
                talk.waits(due - talk.now)
            assert talk.ended in (None, Reason.TIMEOUT)

    def test_a_timer_that_comes_too_early_does_nothing(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        talk = listening(spec)
        talk.receives(known.opening)
        talk.acts()
        talk.sends()
        due = talk.session.get_timer()
        assert talk.waits(0.001) == []
        assert (talk.sends(), talk.session.get_timer()) == (b"", due)


class TestEnds:
    def test_every_delivery_ends_once_and_every_open_request_is_abandoned_once(self, spec: ProtocolSpec[Any]) -> None:
        pair = Pair(spec)
        replies = [pair.asks(said(Kind.REQUEST, number=number)) for number in range(3)]
        pair.client.tells(said(Kind.EVENT, number=3))
        pair.client.session.receive_eof()
        actions = pair.client.talk.acts()
        pair.client.take(actions)
        abandoned = [reply for action in actions if isinstance(action, AbandonRequests) for reply in action.replies]
        assert abandoned == replies
        assert sorted(outcome.delivery.event_id for outcome in pair.client.outcomes) == [f"1-1-{n}" for n in range(4)]

    def test_a_delivery_after_the_end_is_undeliverable(self, spec: ProtocolSpec[Any], known: Examples) -> None:
        talk = listening(spec)
        talk.receives(known.opening)
        talk.session.receive_eof()
        talk.acts()
        talk.sends()
        for kind in (Kind.EVENT, Kind.REQUEST):
            given_up = delivery(known.sized(100), kind, reply=asked_by() if kind is Kind.REQUEST else None)
            (outcome,) = talk.delivers(given_up)
            assert isinstance(outcome, Delivered)
            assert outcome.outcome is Outcome.UNDELIVERABLE
        assert talk.sends() == b""

    @pytest.mark.parametrize("why", CloseReason)
    def test_a_drained_session_ends_for_the_reason_it_is_given(
        self, spec: ProtocolSpec[Any], known: Examples, why: CloseReason
    ) -> None:
        talk = listening(spec)
        talk.receives(known.opening)
        talk.session.drain(talk.now, None, why)
        assert talk.ended == why

    @pytest.mark.parametrize("why", CloseReason)
    def test_a_peer_is_turned_away_by_a_session_that_was_never_started(
        self, spec: ProtocolSpec[Any], known: Examples, why: CloseReason
    ) -> None:
        session = new_session(spec, token=counted_token())
        session.drain(0.0, None, why)
        assert session.actions() == [Terminated(why)]
        session.receive(known.opening, 0.0)
        assert session.actions() == []

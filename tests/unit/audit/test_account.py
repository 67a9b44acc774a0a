"""One frame's place in the loss equation: each pair of what is decided today and what stands in the topics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming_jobs.audit.account import READS_DIFFERENTLY, Counted, Evidence, FaultKind, FrameAccount, account

PRINT, MOVED, RENAMED, PROVEN = "hmac/1 body place", "hmac/1 BODY place", "hmac/1 body PLACE", "none/ BODY PLACE"
EVENT = Evidence("event", event_print=PRINT, frame_print="f")
REJECTED = Evidence("rejected", reasons=("bad_hmac",), frame_print="f")
CONTROL = Evidence("control", frame_print="f")
AN_EVENT: dict[str, Any] = {"event_prints_then": (PRINT,)}
REFUSED: dict[str, Any] = {"reasons_then": ("bad_hmac",), "frame_prints_then": ("f",)}
FORBIDDEN: dict[str, Any] = {"reasons_then": ("forbidden",), "frame_prints_then": ("f",)}


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (EVENT._replace(**AN_EVENT), FrameAccount("event")),
        (REJECTED._replace(**REFUSED), FrameAccount("rejected", "bad_hmac")),
        (CONTROL, FrameAccount("control")),
        (EVENT._replace(covered=True), FrameAccount("duplicate")),
        (REJECTED._replace(covered=True), FrameAccount("duplicate")),
        (CONTROL._replace(covered=True), FrameAccount("duplicate")),
    ],
)
def test_what_went_as_it_would_go_today(frame: Evidence, expected: FrameAccount) -> None:
    assert account(frame) == expected


@pytest.mark.parametrize(("frame", "fault"), [(EVENT, FaultKind.LOST_EVENT), (REJECTED, FaultKind.LOST_REJECTION)])
def test_a_frame_of_which_nothing_is_there_is_lost(frame: Evidence, fault: FaultKind) -> None:
    assert account(frame) == FrameAccount("lost", fault=fault)


@pytest.mark.parametrize(
    ("frame", "counted", "differently"),
    [
        (EVENT._replace(**REFUSED), "rejected", "rejected (bad_hmac) then, event today"),
        (REJECTED._replace(**AN_EVENT), "event", "event then, rejected (bad_hmac) today"),
        (REJECTED._replace(**FORBIDDEN), "rejected", "rejected (forbidden) then, rejected (bad_hmac) today"),
        (CONTROL._replace(**AN_EVENT), "event", "event then, control today"),
        (CONTROL._replace(**FORBIDDEN), "rejected", "rejected (forbidden) then, control today"),
        (REJECTED._replace(changed_interests=True), "control", "control then, rejected (bad_hmac) today"),
    ],
)
def test_what_would_be_decided_otherwise_today_counts_as_it_was_and_is_no_fault(
    frame: Evidence, counted: str, differently: str
) -> None:
    found = account(frame)
    assert (found.counted, found.fault, found.differently) == (counted, "", differently)


def test_a_record_that_says_something_else_than_its_frame_is_altered() -> None:
    assert account(EVENT._replace(event_prints_then=(MOVED,))).fault == FaultKind.ALTERED_EVENT
    refused = REJECTED._replace(reasons_then=("bad_hmac",), frame_prints_then=("F",))
    assert account(refused).fault == FaultKind.ALTERED_REJECTION


def test_one_altered_copy_among_repeats_of_a_record_is_seen() -> None:
    assert account(EVENT._replace(event_prints_then=(MOVED, PRINT))).fault == FaultKind.ALTERED_EVENT


@pytest.mark.parametrize("then", [RENAMED, PROVEN])
def test_what_another_configuration_or_a_later_key_reads_differently_is_no_alteration(then: str) -> None:
    assert account(EVENT._replace(event_prints_then=(then,))) == FrameAccount("event", differently=READS_DIFFERENTLY)


def test_a_refused_part_of_an_event_has_a_record_of_its_own() -> None:
    """A hello of which one pattern is forbidden."""
    in_part = EVENT._replace(reasons=("forbidden",), **AN_EVENT)
    assert account(in_part) == FrameAccount("event", fault=FaultKind.LOST_REJECTION)
    assert account(in_part._replace(**FORBIDDEN)) == FrameAccount("event")


def test_a_redriven_frame_that_was_refused_first_is_an_event() -> None:
    assert account(EVENT._replace(**AN_EVENT, **REFUSED)) == FrameAccount("event")


@pytest.mark.parametrize("came_to", [AN_EVENT, REFUSED])
def test_a_frame_put_in_again_counts_apart_once_it_came_to_something(came_to: dict[str, Any]) -> None:
    assert account(EVENT._replace(again=True, **came_to)).counted == Counted.AGAIN


@pytest.mark.parametrize("covered", [False, True])
def test_a_frame_put_in_again_is_lost_when_it_came_to_nothing(covered: bool) -> None:
    found = account(EVENT._replace(again=True, covered=covered))
    assert found == FrameAccount("lost", fault=FaultKind.LOST_EVENT)


PRINTS = st.lists(st.sampled_from([PRINT, MOVED, RENAMED, PROVEN]), max_size=2).map(tuple)
REASONS = st.lists(st.sampled_from(["bad_hmac", "stale"]), max_size=2).map(tuple)
EVIDENCE = st.builds(
    Evidence, st.sampled_from(["event", "rejected", "control"]), st.booleans(), REASONS, st.just(PRINT), st.just("f"),
    PRINTS, REASONS, st.just(()), st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(EVIDENCE)
def test_nothing_that_left_a_record_is_lost_and_a_repeat_left_none(frame: Evidence) -> None:
    found = account(frame)
    recorded = bool(frame.event_prints_then or frame.reasons_then)
    assert not (recorded and found.counted in (Counted.LOST, Counted.DUPLICATE, Counted.CONTROL))
    assert (found.counted == Counted.LOST) <= bool(found.fault)

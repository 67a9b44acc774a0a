"""W3C trace contexts, and which frames are traced."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.event import Event, Kind
from gateway.core.trace_context import TRACEPARENT, Sampling, TraceContext, brought_by, parse
from gateway.records.link_trail import LinkTrail, found_in, off_content_type

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = TraceContext(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
EVENT = Event("0-1-2", Kind.EVENT, "a", "emp", "apps", "edge-0", "s", "p", "n", 7, content_type="text/plain")
IDS = st.integers(1, 2**64 - 1)


def test_the_specifications_own_example_is_read_and_written() -> None:
    assert parse(PARENT) == CONTEXT
    assert str(CONTEXT) == PARENT


@settings(deadline=None)
@given(IDS, IDS, st.booleans())
def test_what_is_written_is_read_again(trace_id: int, span_id: int, sampled: bool) -> None:
    context = TraceContext(trace_id, span_id, sampled)
    assert parse(str(context)) == context


def test_a_later_version_may_say_more() -> None:
    assert parse(f"cc{PARENT[2:]}-more") == CONTEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        PARENT[:-1],
        PARENT.upper(),
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        f"cc{PARENT[2:]}more",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)
def test_what_is_no_context_is_none(text: str) -> None:
    assert parse(text) is None


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_context_or_none(text: str) -> None:
    parsed = parse(text)
    assert parsed is None or parsed.trace_id


def test_an_event_brings_one_in_a_header_or_in_its_content_type() -> None:
    assert brought_by(EVENT) is None
    assert brought_by(replace(EVENT, headers={TRACEPARENT: PARENT})) == CONTEXT
    assert brought_by(replace(EVENT, content_type=f"text/plain; charset=utf-8; traceparent={PARENT}")) == CONTEXT
    assert brought_by(replace(EVENT, content_type="text/plain; traceparent=mine")) is None


def test_over_a_link_it_goes_with_the_trail_and_is_a_header_at_its_end() -> None:
    sent = LinkTrail("0a0b0c", 1, PARENT).on_content_type("text/plain")
    assert off_content_type(sent) == ("text/plain", LinkTrail("0a0b0c", 1, PARENT))
    arrived = found_in(replace(EVENT, content_type=sent))
    assert arrived.content_type == "text/plain"
    assert brought_by(arrived) == CONTEXT


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 1.0])
def test_so_many_are_traced_as_are_to_be(share: float) -> None:
    sampling = Sampling("demo", share)
    traced = sum(len(list(sampling.of_record(0, offset, 0).among(100))) for offset in range(1_000))
    assert traced == pytest.approx(100_000 * share, rel=0.2)


def test_frames_are_told_apart_and_those_of_another_life_of_the_topics_too() -> None:
    sampling = Sampling("demo", 1)
    records = [(0, 1, 5), (0, 1, 6), (0, 2, 5), (1, 1, 5)]
    ids = {context.trace_id for record in records for _, context in sampling.of_record(*record).among(50)}
    assert len(ids) == 200


def test_the_decision_is_the_one_of_opentelemetrys_own_sampler() -> None:
    """Whoever continues a trace under the same share decides alike."""
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    theirs = TraceIdRatioBased(0.2)
    traced = dict(Sampling("demo", 0.2).of_record(0, 1, 0).among(1_000))
    for index, context in Sampling("demo", 1).of_record(0, 1, 0).among(1_000):
        decided = theirs.should_sample(None, context.trace_id, "receive").decision
        assert (decided is Decision.RECORD_AND_SAMPLE) == (index in traced)


def test_a_step_has_a_name_of_its_own_which_is_the_same_each_time() -> None:
    route = CONTEXT.step("route")
    assert route == CONTEXT.step("route")
    assert route.trace_id == CONTEXT.trace_id
    assert len({CONTEXT.span_id, route.span_id, CONTEXT.step("deliver").span_id, route.step("route").span_id}) == 4

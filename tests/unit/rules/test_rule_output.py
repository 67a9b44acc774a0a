"""Tests the way from rows to frames: what is said, and by what name it is known again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import RuleEvent
from streaming_jobs.rules.rule_output import partition_of, rule_events


def events(*rows: dict[str, Any], batch: int = 3, depth: int = 1) -> list[RuleEvent]:
    return list(rule_events("hot", depth, batch, rows))


def test_a_row_is_an_event_with_what_it_gives() -> None:
    (event,) = events({"subject": "a", "body": "b", "content_type": "c", "origin": "0-1-2", "hops": 4})
    assert (event.rule, event.subject, event.body, event.content_type) == ("hot", "a", "b", "c")
    assert (event.origin, event.hops) == ("0-1-2", 4)


def test_a_row_that_says_no_hops_has_as_many_as_the_rule_is_deep() -> None:
    assert events({"subject": "a"}, {"subject": "a", "hops": None}, depth=3)[1].hops == 3


def test_a_row_without_a_subject_is_no_event() -> None:
    assert events({"subject": None, "body": "b"}, {"subject": "", "body": "b"}) == []


def test_bytes_that_are_text_go_as_text_and_others_as_base64() -> None:
    text, other = events({"subject": "a", "body": bytearray(b"ok")}, {"subject": "a", "body": b"\xff"})
    assert (text.body, text.encoding) == ("ok", "")
    assert (other.body, other.encoding) == ("/w==", "base64")


def test_a_batch_that_is_done_again_gives_the_same_names() -> None:
    rows = [{"subject": "a", "body": "x"}, {"subject": "a", "body": "x"}, {"subject": "b", "body": "x"}]
    first, again = events(*rows), events(*reversed(rows))
    assert {one.token for one in first} == {one.token for one in again}
    assert len({one.token for one in first}) == 3


def test_rows_that_are_given_one_by_one_have_the_names_that_they_have_together() -> None:
    rows = [{"subject": "a", "body": "x"}, {"subject": "a", "body": "x"}, {"subject": "b", "body": "x"}]
    counts: Counter[str] = Counter()
    one_by_one = [event for row in rows for event in rule_events("hot", 1, 3, [row], counts)]
    assert one_by_one == events(*rows)


def test_the_same_row_of_another_batch_is_another_finding() -> None:
    row = {"subject": "a", "body": "x"}
    assert events(row)[0].token != events(row, batch=4)[0].token


def test_what_follows_from_an_event_is_the_same_finding_in_any_batch() -> None:
    row = {"subject": "a", "body": "x", "origin": "0-1-2"}
    assert events(row)[0].token == events(row, batch=4)[0].token
    assert events(row)[0].token != events({**row, "origin": "0-1-3"})[0].token


@given(st.text(), st.text(), st.text(), st.text())
def test_names_do_not_run_into_each_other(subject: str, body: str, more: str, rest: str) -> None:
    one = {"subject": f"s{subject}", "body": body, "origin": "o"}
    other = {"subject": f"s{more}", "body": rest, "origin": "o"}
    assert (events(one)[0].token == events(other)[0].token) == (one == other)


@given(st.binary())
def test_any_body_survives_the_frame(body: bytes) -> None:
    import base64

    (event,) = events({"subject": "a", "body": body})
    read = control_frames.decode(control_frames.encode(event))
    assert isinstance(read, RuleEvent)
    assert (base64.b64decode(read.body) if read.encoding else read.body.encode()) == body


def test_all_findings_of_a_rule_go_to_one_partition() -> None:
    assert {partition_of("hot", 4) for _ in range(3)} == {partition_of("hot", 4)}
    assert {partition_of(f"rule-{number}", 4) for number in range(50)} == {0, 1, 2, 3}

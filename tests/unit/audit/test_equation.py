"""The equation as it is shown: its terms add up, and every kind of fault unbalances it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from streaming_jobs.audit.account import Counted, FaultKind
from streaming_jobs.audit.equation import LISTED, OUTCOMES, EdgeCount, Equation, Gap


def equation() -> Equation:
    counted = Counter({Counted.EVENT: 7, Counted.REJECTED: 3, Counted.DUPLICATE: 2, Counted.CONTROL: 1})
    outcomes = Counter({"confirmed": 4, "written": 9, "in_flight": 1})
    reasons = Counter({"stale": 1, "bad_hmac": 2})
    return Equation("demo", end=1_760_000_000_000_000, counted=Counter(counted), reasons=reasons, outcomes=outcomes)


def test_the_terms_of_each_line_add_up_to_its_left_side() -> None:
    said = equation().to_json()
    terms = ("events", "rejected", "duplicates", "control", "again", "lost")
    assert said["frames"] == sum(said[term] for term in terms) == 13
    assert said["destinations"] == sum(said[term] for term in OUTCOMES) == 14
    assert said["rejected"] == sum(said["rejected_by_reason"].values())


def test_it_is_json_through_and_through() -> None:
    one = equation()
    one.fault(FaultKind.LOST_EVENT, "0-1-2")
    one.gaps.append(Gap(0, 0, 9, "gone"))
    one.edges = [EdgeCount("edge-0", 13, {"overload": 1}, 0, 12, True)]
    assert json.loads(json.dumps(one.to_json()))["faults"] == [
        {"kind": "lost_event", "event_id": "0-1-2", "detail": ""}
    ]


def test_what_is_in_flight_and_what_is_judged_differently_unbalance_nothing() -> None:
    one = equation()
    one.differently_count = 1
    assert one.balanced
    assert one.to_text().splitlines()[-1] == "balanced"


@pytest.mark.parametrize("kind", list(FaultKind))
def test_every_fault_unbalances_it_and_is_named(kind: FaultKind) -> None:
    one = equation()
    one.fault(kind, "0-1-2", "why")
    assert not one.balanced
    assert one.to_text().splitlines()[-2:] == [f"NOT balanced: 1 {kind}", f"  {kind:<18} 0-1-2            why"]


def test_a_gap_of_the_raw_log_unbalances_it() -> None:
    one = equation()
    one.gaps.append(Gap(1, 0, 41, "events of it are there"))
    assert not one.balanced
    assert "gap in raw partition 1: 0 to 41, events of it are there" in one.to_text()


def test_an_edge_that_received_more_than_it_logged_or_refused_unbalances_it() -> None:
    one = equation()
    one.edges = [EdgeCount("edge-0", 13, {}, 0, 12, False)]
    assert not one.balanced
    assert one.to_text().splitlines()[-1] == "NOT balanced: counts of edge-0"


def test_the_first_line_is_said_to_be_missing_where_no_edge_was_asked() -> None:
    assert "not included" in equation().to_text()
    assert equation().to_json()["edges"] is None


def test_of_many_faults_of_a_kind_some_are_listed_and_all_are_counted() -> None:
    one = equation()
    for number in range(LISTED + 1):
        one.fault(FaultKind.LOST_EVENT, f"0-{number}-0")
    said = one.to_json()
    assert (len(said["faults"]), said["fault_counts"]) == (LISTED, {"lost_event": LISTED + 1})
    assert one.to_text().splitlines()[-1] == "  and 1 more"

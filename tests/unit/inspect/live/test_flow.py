"""Rates and latencies between two looks at the metrics."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.inspect.live.exposition import read_samples
from gateway.inspect.live.flow import MetricsSnapshot, flow, samples_of
from tests.unit.inspect.live.parts import DEVICES, ROUTER, acknowledged, edge, router, sample


def look(at: float, **parts: str | None) -> MetricsSnapshot:
    told = {name: None if text is None else samples_of(read_samples(text)) for name, text in parts.items()}
    return MetricsSnapshot(at, told, {name: f"{name} is away" for name, text in parts.items() if text is None})


def between(before: dict[str, str | None], after: dict[str, str | None], seconds: float = 2.0) -> dict[str, Any]:
    return flow(look(100.0, **before), look(100.0 + seconds, **after))


def stage(said: dict[str, Any], name: str) -> tuple[float | None, float]:
    return said["stages"][name]["per_second"], said["stages"][name]["total"]


def test_a_rate_is_what_has_been_counted_between_the_looks() -> None:
    said = between({"a": edge(100), "r": router(50)}, {"a": edge(120), "r": router(51)})
    assert stage(said, "received") == (10.0, 120)
    assert stage(said, "events") == (0.5, 51)
    assert said["seconds"] == 2.0


def test_the_first_look_knows_totals_and_no_rates() -> None:
    said = flow(None, look(100.0, a=edge(100)))
    assert stage(said, "received") == (None, 100)


def test_a_part_that_began_anew_has_counted_what_it_says_since() -> None:
    assert stage(between({"a": edge(100)}, {"a": edge(30)}), "received") == (15.0, 30)


def test_a_part_that_is_away_is_missing_and_has_no_rate_until_it_was_seen_twice() -> None:
    away = between({"a": edge(100), "r": router(7)}, {"a": edge(102), "r": None})
    assert away["missing"] == {"r": "r is away"}
    assert (stage(away, "received"), stage(away, "events")) == ((1.0, 102), (None, 0))
    back = between({"a": edge(102), "r": None}, {"a": edge(104), "r": router(9)})
    assert (back["missing"], stage(back, "events")) == ({}, (None, 9))


def test_several_edges_count_together_and_their_listeners_apart() -> None:
    other = edge(5).replace("edge-0", "edge-1")
    later = edge(9).replace("edge-0", "edge-1")
    said = between({"a": edge(100), "b": other}, {"a": edge(102), "b": later})
    assert stage(said, "received") == (3.0, 111)
    assert [(one["edge"], one["received"]["per_second"]) for one in said["listeners"]] == [
        ("edge-0", 1.0), ("edge-1", 2.0),
    ]  # fmt: skip


def test_what_was_never_refused_has_a_rate_of_zero_and_not_none() -> None:
    said = between({"a": edge(1)}, {"a": edge(1)})
    assert stage(said, "refused") == (0.0, 0)
    assert said["listeners"][0]["refused"]["per_second"] == 0.0


def test_latencies_are_those_of_what_was_measured_meanwhile() -> None:
    slow = acknowledged(("0.1", 0), ("1.0", 1000), ("+Inf", 1000))
    then = acknowledged(("0.1", 10), ("1.0", 1010), ("+Inf", 1010))
    said = between({"a": edge(0) + slow}, {"a": edge(0) + then})
    assert said["latency"]["acknowledge"] == {"p50_seconds": pytest.approx(0.05), "p99_seconds": pytest.approx(0.099)}
    assert said["latency"]["end_to_end"] == {"p50_seconds": None, "p99_seconds": None}


def test_beyond_the_last_bucket_a_latency_is_its_bound() -> None:
    said = between(
        {"a": acknowledged(("0.1", 0), ("+Inf", 0))}, {"a": acknowledged(("0.1", 0), ("+Inf", 4))}
    )  # fmt: skip
    assert said["latency"]["acknowledge"]["p50_seconds"] == 0.1


def test_what_is_refused_is_told_by_reason_and_place_the_most_frequent_first() -> None:
    def refused(edge_count: float, router_count: float) -> str:
        labels = ROUTER | {"stage": "decode", "outcome": "rejected", "reason": "bad_hmac", "protocol": "emm"}
        return sample("rejected_frames_total", edge_count, DEVICES | {"reason": "too_large"}) + sample(
            "frames_total", router_count, labels
        )

    said = between({"a": refused(10, 1)}, {"a": refused(10, 5)})
    assert [(row["reason"], row["where"], row["per_second"]) for row in said["rejected"]] == [
        ("bad_hmac", "router", 2.0),
        ("too_large", "edge", 0.0),
    ]


def test_what_waits_is_summed_and_the_last_commit_is_an_age() -> None:
    lags = sample("source_lag_records", 3, ROUTER | {"partition": "0"})
    lags += sample("source_lag_records", 4, ROUTER | {"partition": "1"})
    lags += sample("last_commit_timestamp_seconds", 99.5, ROUTER | {"lane": "lane-0"})
    lag = flow(None, look(102.0, r=lags))["lag"]
    assert (lag["raw_records"], lag["last_commit_seconds"], lag["egress_records"]) == (7, 2.5, None)

"""Tests what a run's document and its text say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.bench.machine import Usage
from gateway.bench.report import text
from tests.unit.bench.notes import noted, on_time
from tests.unit.bench.runs import WORK, run_of

USAGE = {"edge": Usage(0.4, 80.0, 90.0, 95.0), "jvm": Usage(2.0, 500.0, 510.0, 510.0)}


class TestRates:
    def test_a_run_that_goes_well_offers_and_achieves_what_was_asked_for(self) -> None:
        assert run_of()["per_second"] == {"asked": 10.0, "offered": 10.0, "achieved": 10.0, "delivered": 10.0}

    def test_a_mesh_that_is_slow_but_keeps_up_achieves_what_is_offered(self) -> None:
        assert run_of(on_time(range(50), 3_000.0))["per_second"]["achieved"] == 10.0

    def test_a_mesh_that_falls_behind_achieves_less(self) -> None:
        """Forty frames, one each 200 ms instead of each 100."""
        behind = noted(*((index, 200.0 * index) for index in range(10, 50)))
        assert run_of(behind)["per_second"]["achieved"] == pytest.approx(5.1, abs=0.05)

    def test_a_generator_that_falls_behind_is_reported_and_not_hidden(self) -> None:
        found = run_of(sent_late_seconds=4.1)
        assert found["per_second"]["offered"] == 5.0
        assert any("offered 5/s of the 10/s asked for" in warning for warning in found["warnings"])

    def test_all_subscribers_together_are_delivered_to_so_much_more(self) -> None:
        found = run_of(on_time(range(50)), on_time(range(50)), work=replace(WORK, fan_out=2))
        assert (found["per_second"]["achieved"], found["per_second"]["delivered"]) == (10.0, 20.0)


class TestWhatWentWrong:
    def test_losses_and_repeats_are_counted(self) -> None:
        found = run_of(on_time([*range(12), 12, 12, *range(14, 50)]))
        frames = found["frames"]
        assert (frames["expected"], frames["received"], frames["lost"], frames["duplicates"]) == (40, 39, 1, 1)

    def test_what_the_edge_did_not_take_explains_what_is_lost(self) -> None:
        found = run_of(on_time(range(45)), edge={"rejected overload": 3, "kernel_dropped": 2, "received": 50})
        assert found["warnings"] == ["the edge did not take: 3 rejected overload, 2 kernel_dropped"]

    def test_where_nothing_is_lost_there_is_nothing_to_explain(self) -> None:
        assert run_of(edge={"rejected unknown_type": 3})["warnings"] == []

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"dropped": 7}, "7 datagrams came and were lost at the receiver of this tool"),
            ({"outcomes": {"undeliverable": 2}}, "2 publications were refused"),
        ],
    )
    def test_faults_of_our_own_are_told_apart(self, given: dict[str, object], said: str) -> None:
        assert run_of(**given)["warnings"] == [said]

    def test_losses_of_the_warm_up_are_mentioned(self) -> None:
        assert run_of(on_time(range(4, 50)))["warnings"] == ["4 frames of the warm-up were lost too"]


class TestCosts:
    def test_they_are_by_measured_frame_and_by_part(self) -> None:
        cpu = run_of(usage=USAGE)["cpu"]
        assert cpu["us_per_frame"] == {"edge": 10_000.0, "jvm": 50_000.0, "total": 60_000.0}

    def test_cores_are_processor_time_by_time(self) -> None:
        """The run lasts from the first measured frame's due time to the last arrival: 3.9 s, and 5 ms of latency."""
        assert run_of(usage=USAGE)["cpu"]["cores"]["jvm"] == pytest.approx(2.0 / 3.905, abs=0.001)

    def test_memory_is_shown_from_first_to_last(self) -> None:
        assert run_of(usage=USAGE)["memory_mib"]["edge"] == {"first": 80, "last": 90, "most": 95}

    def test_where_no_process_is_known_there_are_none(self) -> None:
        found = run_of()
        assert (found["cpu"], found["memory_mib"]) == ({}, {})


class TestText:
    def test_it_says_what_was_done_and_what_came_of_it(self) -> None:
        shown = text(run_of(usage=USAGE)).splitlines()
        assert shown == [
            "emm → yamp   200 bytes, hmac, 2 sessions → 1 subscriber, 4 s after 1 s of warm-up",
            "rate          asked 10/s   offered 10/s   achieved 10/s",
            "frames        40   lost 0   duplicates 0   disordered 0",
            "latency ms    p50 5.00   p90 5.00   p99 5.00   p99.9 5.00   max 5.00   mean 5.00",
            "cpu µs/frame  edge 10,000   jvm 50,000   total 60,000",
            "cores         edge 0.10   jvm 0.51   total 0.61",
            "memory MiB    edge 80→90   jvm 500→510",
            "tool          late ms p50 2.00   p99 30.0   max 30.0",
        ]

    def test_without_any_arrival_there_is_no_latency_to_show(self) -> None:
        shown = text(run_of(noted()))
        assert "latency ms    p50 -   p90 -" in shown
        assert "lost 40" in shown

    def test_warnings_come_last(self) -> None:
        assert text(run_of(dropped=1)).splitlines()[-1].startswith("warning")

    def test_requests_have_servers_and_a_way_back(self) -> None:
        work = replace(WORK, origin="yamp", target="hsp", request=True, fan_out=2)
        assert text(run_of(work=work)).startswith("yamp → hsp → yamp   200 bytes, 2 sessions → 2 servers")


def test_the_document_is_json_with_nothing_that_json_has_no_form_for() -> None:
    for found in (run_of(usage=USAGE, outcomes={"confirmed": 3}), run_of(noted())):
        assert json.loads(json.dumps(found, allow_nan=False)).keys() == found.keys()

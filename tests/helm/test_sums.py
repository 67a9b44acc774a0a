"""The table of sizes in the operate page is what the measured costs make of it."""

from __future__ import annotations

import pytest

from tests.bench.sums import LEAST_EDGES, PAGE, Sums, table, written


def test_the_page_has_the_table_that_the_costs_make() -> None:
    page = PAGE.read_text()
    assert written(page) == page, "run python -m tests.bench.sums --write"


def test_ten_times_the_rate_needs_ten_times_the_cores_and_bytes() -> None:
    one, ten = Sums(100_000), Sums(1_000_000)
    for name in (
        "router_cores",
        "edge_cores",
        "broker_cores",
        "cores",
        "written_bytes",
        "kept_bytes",
        "state_bytes",
        "known_bytes",
    ):
        assert getattr(ten, name) == pytest.approx(10 * getattr(one, name)), name


def test_more_receivers_cost_edges_and_egress_but_no_partitions() -> None:
    one, three = Sums(1_000_000), Sums(1_000_000, fan_out=3)
    assert (three.partitions, three.task_slots) == (one.partitions, one.task_slots)
    assert three.edges > one.edges
    assert three.written_bytes > one.written_bytes


def test_a_mesh_that_does_little_has_two_edges_all_the_same() -> None:
    assert Sums(1).edges == LEAST_EDGES
    assert table([1]).count("\n") == 13

"""Tests what may be asked of a run, and what the machine must have for it."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest

from gateway.bench import capacity
from gateway.bench.capacity import check_memory, check_sockets, free_memory, local_ports
from gateway.bench.workload import WorkError, Workload

EMM = Workload(origin="emm", target="emm", run="c0de")


def refusal(work: Workload) -> str:
    with pytest.raises(WorkError) as refused:
        work.check()
    return str(refused.value)


@pytest.mark.parametrize(
    "work",
    [EMM, replace(EMM, size=548), replace(EMM, origin="yamp", size=1_000_000), replace(EMM, sessions=10_000)],
)
def test_what_can_be_done_is(work: Workload) -> None:
    work.check()


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"size": 549}, "--size 549"),
        ({"size": 10}, "--size 10"),
        ({"origin": "yamp", "size": 1_000_001}, "--size 1000001"),
        ({"request": True}, "--from emm"),
        ({"request": True, "origin": "yamp"}, "--to emm"),
        ({"sessions": 10_001}, "--sessions 10001"),
    ],
)
def test_what_cannot_names_its_option(given: dict[str, object], option: str) -> None:
    assert refusal(replace(EMM, **given)).startswith(option)  # type: ignore[arg-type]


def test_the_warm_up_is_in_the_total_and_not_measured() -> None:
    work = replace(EMM, rate=100.0, seconds=8.0, warm_up=2.0)
    assert (work.total, work.first_measured) == (1_000, 200)


@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_even_the_slowest_run_measures_one_frame(rate: float) -> None:
    work = replace(EMM, rate=rate, seconds=1.0, warm_up=0.0)
    assert (work.total, work.first_measured) == (1, 0)


class TestCapacity:
    def test_half_of_what_is_free_may_be_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(capacity, "free_memory", lambda: 4 * capacity.GIB)
        check_memory(2 * capacity.GIB)
        with pytest.raises(WorkError) as refused:
            check_memory(2 * capacity.GIB + 1)
        assert "2.0 GiB" in str(refused.value)

    def test_a_socket_more_than_there_are_ports_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(capacity, "local_ports", lambda: 100)
        check_sockets(100)
        with pytest.raises(WorkError) as refused:
            check_sockets(101)
        assert "the 100 ports" in str(refused.value)

    def test_a_socket_more_than_a_process_may_open_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100 + capacity.SPARE_FILES))
        check_sockets(100)
        with pytest.raises(WorkError) as refused:
            check_sockets(101)
        assert "ulimit -n" in str(refused.value)

    def test_this_machine_says_what_it_has(self) -> None:
        assert (free_memory() or 0) > 2**20
        assert (local_ports() or 0) > 100

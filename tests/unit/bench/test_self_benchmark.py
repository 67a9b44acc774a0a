"""A whole run in processes of its own, with nothing between generator and receiver."""

from __future__ import annotations

import pytest

from gateway.bench.measure import Setup, measure
from gateway.bench.messages import PeerPlace
from gateway.bench.report import document
from gateway.bench.self_benchmark import measure_alone
from gateway.bench.worker_processes import BenchError
from gateway.bench.workload import Sign, Workload

WORK = Workload(
    origin="emm", target="emm", run="c0de", rate=200.0, seconds=0.5, warm_up=0.25, sign=Sign.HMAC, sessions=4
)


def test_all_that_is_sent_is_received_and_accounted_for() -> None:
    said: list[str] = []
    found = document(measure_alone(WORK, 10.0, said.append))
    assert found["frames"] == {
        "sent": 100, "expected": 100, "received": 100, "lost": 0, "duplicates": 0, "disordered": 0, "warm_up_lost": 0,
    }  # fmt: skip
    assert found["latency_ms"]["p50"] > 0
    assert said[0] == "preparing"


def test_a_child_that_fails_says_why_and_leaves_no_process() -> None:
    nowhere = PeerPlace("yamp", "tcp://127.0.0.1:1")
    work = Workload(origin="yamp", target="yamp", run="c0de", rate=10.0, seconds=1.0, sessions=1)
    with pytest.raises(BenchError) as failed:
        measure(work, Setup(origin=nowhere, target=nowhere), lambda _: None)
    assert str(failed.value) == "tcp://127.0.0.1:1: connection refused"

"""A child of a measurement, and how it ends."""

from __future__ import annotations

from multiprocessing import Pipe

from gateway.bench.worker_process import Orders, run
from gateway.bench.workload import WorkError


def test_a_child_that_fails_when_the_measuring_process_has_hung_up_says_nothing() -> None:
    """Another has failed before it, and that was told."""
    ours, theirs = Pipe()

    def fail(orders: Orders) -> None:
        ours.close()
        raise WorkError("no")

    run(theirs, fail, ())

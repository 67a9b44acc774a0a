"""Measured runs, made up: what a report, a comparison and a plot are tried on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gateway.bench.accounting import account
from gateway.bench.arrivals import Noted
from gateway.bench.machine import Usage
from gateway.bench.measure import Measured
from gateway.bench.messages import Collected, SendReport
from gateway.bench.report import document
from gateway.bench.schedule import SECOND_NS, Schedule
from gateway.bench.workload import Workload
from tests.unit.bench.notes import START, on_time

WORK = Workload(origin="emm", target="yamp", run="c0de", rate=10.0, seconds=4.0, warm_up=1.0, sessions=2)


def measured(
    *noted: Noted, work: Workload = WORK, sent_late_seconds: float = 0.0, usage: Mapping[str, Usage] | None = None,
    outcomes: Mapping[str, int] | None = None, edge: Mapping[str, int] | None = None, dropped: int = 0,
) -> Measured:  # fmt: skip
    """A run in which the generator was a while behind at its end; without arrivals all came 5 ms late."""
    schedule = Schedule(START, work.rate, work.total)
    arrivals = noted or (on_time(range(work.total), 5.0),)
    ended = schedule.due(work.total - 1) + round(sent_late_seconds * SECOND_NS)
    late = np.array([1_000_000, 2_000_000, 30_000_000], dtype=np.int64).tobytes()
    return Measured(
        work=work,
        schedule=schedule,
        began=schedule.due(work.first_measured),
        sent=SendReport(work.total, ended, late, 0.25, outcomes or {}),
        collected=(Collected(arrivals, 0.5, dropped),),
        account=account(arrivals, schedule, work.first_measured, work.sessions),
        usage=usage or {},
        edge=edge or {},
        load_average=0.25,
    )


def run_of(*noted: Noted, **given: Any) -> dict[str, Any]:
    return document(measured(*noted, **given))

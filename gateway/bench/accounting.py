"""Turns what receivers noted into the figures of a run. Pure: arrays in, numbers out.

Each subscriber is owed every frame once, and the frames of one session in their order. So, for each subscriber:

lost          a measured frame that never came
duplicate     an arrival of a frame that had come before
disordered    a first arrival behind one of the same session that was sent later

The warm-up's frames are in the latter two, for a repeat or a disorder is a fault whenever it happens; its losses are
told apart (`warm_up_lost`), and its latencies are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gateway.bench.arrivals import Noted
from gateway.bench.quantiles import Floats, curve, named, rank
from gateway.bench.schedule import SECOND_NS, Schedule

Integers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

MS_NS = 1_000_000
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RunAccount:
    """The account of a run.

    `latencies_ms` are of all subscribers together, unsorted, beside the second of the run in which each was due.

    `first`, `last`: the earliest and latest first arrival of a measured frame, nanoseconds after the schedule's start.
    """

    expected: int
    received: int
    duplicates: int
    disordered: int
    warm_up_lost: int
    latencies_ms: Floats
    due_seconds: Integers
    first: int
    last: int

    @property
    def lost(self) -> int:
        return self.expected - self.received


def account(noted: Sequence[Noted], schedule: Schedule, first_measured: int, sessions: int) -> RunAccount:
    """Makes the account of a run. Frame `index` was sent by session `index % sessions`."""
    parts = [_subscriber(notes, schedule, first_measured, sessions) for notes in noted]
    measured = schedule.total - first_measured
    if not parts:
        return RunAccount(0, 0, 0, 0, 0, np.empty(0), np.empty(0, dtype=np.int64), 0, 0)
    return RunAccount(
        expected=measured * len(parts),
        received=sum(part.received for part in parts),
        duplicates=sum(part.duplicates for part in parts),
        disordered=sum(part.disordered for part in parts),
        warm_up_lost=sum(part.warm_up_lost for part in parts),
        latencies_ms=np.concatenate([part.latencies_ms for part in parts]),
        due_seconds=np.concatenate([part.due_seconds for part in parts]),
        first=min(part.first for part in parts),
        last=max(part.last for part in parts),
    )


def _subscriber(noted: Noted, schedule: Schedule, first_measured: int, sessions: int) -> RunAccount:
    indices = np.frombuffer(noted.indices, dtype=np.int64)
    times = np.frombuffer(noted.times, dtype=np.int64)
    _, first = np.unique(indices, return_index=True)
    first.sort()  # by arrival again
    repeated = len(indices) - len(first)
    indices, times = indices[first], times[first]
    is_measured = indices >= first_measured
    due_ns = np.round(indices[is_measured] * (SECOND_NS / schedule.rate))
    since_start = times[is_measured] - schedule.start
    return RunAccount(
        expected=schedule.total - first_measured,
        received=int(is_measured.sum()),
        duplicates=repeated,
        disordered=_disordered(indices, sessions),
        warm_up_lost=first_measured - int((~is_measured).sum()),
        latencies_ms=(since_start - due_ns) / MS_NS,
        due_seconds=(due_ns // SECOND_NS).astype(np.int64),
        first=int(since_start.min(initial=_NEVER)),
        last=int(since_start.max(initial=0)),
    )


def _disordered(indices: Integers, sessions: int) -> int:
    """Counts for all sessions at once: each is lifted above the one before, so that one running maximum serves all."""
    session = indices % sessions
    by_session = np.argsort(session, kind="stable")
    lifted = indices[by_session] + session[by_session] * (np.int64(1) << 40)
    return int((lifted < np.maximum.accumulate(lifted)).sum()) if len(lifted) else 0


def latency(account: RunAccount) -> dict[str, float | None]:
    return named(np.sort(account.latencies_ms))


def latency_curve(account: RunAccount) -> list[tuple[float, float]]:
    return curve(np.sort(account.latencies_ms))


def timeline(account: RunAccount) -> list[dict[str, float]]:
    """Returns a row for each second in which frames were due, without the seconds of the warm-up."""
    if not len(account.due_seconds):
        return []
    order = np.lexsort((account.latencies_ms, account.due_seconds))
    seconds, latencies = account.due_seconds[order], account.latencies_ms[order]
    starts = np.flatnonzero(np.concatenate(([True], seconds[1:] != seconds[:-1])))
    ends = np.append(starts[1:], len(seconds))
    rows = []
    for start, end in zip(starts, ends, strict=True):
        of_second = latencies[start:end]
        ranks = {name: of_second[rank(len(of_second), part)] for name, part in (("p50", 0.5), ("p99", 0.99))}
        row = {name: round(float(value), 3) for name, value in (*ranks.items(), ("max", of_second[-1]))}
        rows.append({"second": int(seconds[start]), "received": int(end - start), **row})
    return rows

"""Keeps what an edge has carried in the last hour: a point every ten seconds, in a ring that never grows.

A point holds rates a second and latencies in seconds since the point before. Three hundred and sixty points of nine
numbers are some 40 kB, however many listeners there are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from gateway.inspect.live.exposition import MetricSample
from gateway.inspect.live.flow import RECEIVED, Changes, MetricsSnapshot, samples_of
from gateway.protocols.actions import REACHED

POINT_SECONDS = 10.0
POINTS = 360
NAMES = ("at", "received", "delivered", "refused", "ack_p50", "ack_p99", "end_to_end_p50", "end_to_end_p99")
FAMILIES = (
    "meshgate_received_frames_total",
    "meshgate_egress_delivered_total",
    "meshgate_rejected_frames_total",
    "meshgate_ack_duration_seconds_bucket",
    "meshgate_end_to_end_duration_seconds_bucket",
)
"""The series that are read for a point; the others would cost as much again."""

Point = tuple[float | None, ...]


class LastHour:
    """The ring. `tell` returns the samples of `FAMILIES`. One thread calls `tick`, any thread `as_json`."""

    def __init__(
        self, read_samples: Callable[[], Iterable[MetricSample]], clock: Callable[[], float] = time.time
    ) -> None:
        self._read_samples = read_samples
        self._clock = clock
        self._points: deque[Point] = deque(maxlen=POINTS)
        self._last: MetricsSnapshot | None = None

    def tick(self) -> None:
        """Takes a point if the time has come. A clock that was set back begins anew."""
        now, last = self._clock(), self._last
        if last is not None and 0 <= now - last.at < POINT_SECONDS:
            return
        look = self._last = MetricsSnapshot(now, {"edge": samples_of(self._read_samples())})
        if last is not None and now > last.at:
            self._points.append(_point(Changes(last, look), now))

    def as_json(self) -> dict[str, Any]:
        """Returns a list of numbers for each name of a point, the oldest first."""
        points = list(self._points)
        return {"every_seconds": POINT_SECONDS} | {
            name: [point[place] for point in points] for place, name in enumerate(NAMES)
        }


def _point(changes: Changes, now: float) -> Point:
    rates = (
        changes.rate(RECEIVED),
        changes.rate("egress_delivered_total", lambda labels: labels["outcome"] in REACHED),
        changes.rate("rejected_frames_total"),
    )
    ack, end_to_end = changes.latency("ack_duration_seconds"), changes.latency("end_to_end_duration_seconds")
    per_second = (None if rate.per_second is None else round(rate.per_second, 2) for rate in rates)
    return (round(now, 1), *per_second, *ack.as_json().values(), *end_to_end.as_json().values())

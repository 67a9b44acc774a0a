"""Computes what flows now: rates, latencies and lags between two looks at the parts' metrics. Pure.

A part that was started anew counts from zero again: what it counts then is what has happened since, as Prometheus takes
it. A part that was away for a look has no rate until it has been seen twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.core.reasons import Stage
from gateway.inspect.live.exposition import MetricSample
from gateway.protocols.actions import REACHED

PREFIX = "meshgate_"
BUCKET = "_bucket"
RECEIVED = "received_frames_total"

Series = tuple[str, tuple[tuple[str, str], ...]]
Samples = Mapping[Series, float]
Test = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The metrics of the parts at one moment, by name; None for a part that did not answer, and `missing` says why."""

    at: float
    parts: Mapping[str, Samples | None]
    missing: Mapping[str, str] = field(default_factory=dict)


def samples_of(samples: Iterable[MetricSample]) -> Samples:
    return {
        (sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))): sample.value for sample in samples
    }


class Change(NamedTuple):
    """The change of one series: its value, and its growth since the look before; None if that is not known."""

    name: str
    labels: Mapping[str, str]
    value: float
    grown: float | None


class Rate(NamedTuple):
    """A rate of growth. `per_second` is None if there is no look before to compare with."""

    per_second: float | None
    total: float

    def as_json(self) -> dict[str, float | None]:
        return {"per_second": None if self.per_second is None else round(self.per_second, 2), "total": self.total}


class Latency(NamedTuple):
    """The latencies, in seconds, measured between the looks; None if nothing was measured."""

    p50: float | None = None
    p99: float | None = None

    def as_json(self) -> dict[str, float | None]:
        return {"p50_seconds": _rounded(self.p50), "p99_seconds": _rounded(self.p99)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _any(_: Mapping[str, str]) -> bool:
    return True


class Changes:
    """The changes of all series between two looks."""

    def __init__(self, before: MetricsSnapshot | None, after: MetricsSnapshot) -> None:
        self.seconds = after.at - before.at if before is not None else 0.0
        self._all: dict[str, list[Change]] = {}
        for part, samples in after.parts.items():
            earlier = None if before is None else before.parts.get(part)
            for (name, labels), value in (samples or {}).items():
                grown = None if earlier is None else _growth(earlier.get((name, labels), 0.0), value)
                self._all.setdefault(name, []).append(Change(name, dict(labels), value, grown))

    def of(self, name: str, fits: Test = _any) -> Iterator[Change]:
        return (change for change in self._all.get(name, ()) if fits(change.labels))

    def rate(self, name: str, fits: Test = _any, *, beside: str = "") -> Rate:
        """Returns the sum of the rates of these series.

        `beside` names what the same parts report from their start on. If that is there and this has no series yet, it
        has not happened.
        """
        own_rate = self._rate(list(self.of(name, fits)))
        if own_rate.per_second is None and beside and self.rate(beside, fits).per_second is not None:
            return Rate(0.0, own_rate.total)
        return own_rate

    def _rate(self, changes: Sequence[Change]) -> Rate:
        grown = [change.grown for change in changes if change.grown is not None]
        per_second = sum(grown) / self.seconds if grown and self.seconds > 0 else None
        return Rate(per_second, sum(change.value for change in changes))

    def rates(self, names: Iterable[str], label: str, fits: Test = _any) -> dict[str, Rate]:
        """Returns the rates by the values of a label. Values that were never counted are left out."""
        by_value: dict[str, list[Change]] = {}
        for name in names:
            for change in self.of(name, fits):
                if change.value:
                    by_value.setdefault(change.labels[label], []).append(change)
        return {value: self._rate(changes) for value, changes in by_value.items()}

    def now(self, name: str, fits: Test = _any) -> float | None:
        """Returns a state, summed; None if no part reports it."""
        values = [change.value for change in self.of(name, fits)]
        return sum(values) if values else None

    def latest(self, name: str) -> float | None:
        return max((change.value for change in self.of(name)), default=None)

    def latency(self, name: str, fits: Test = _any) -> Latency:
        buckets: Counter[float] = Counter()
        for change in self.of(name + BUCKET, fits):
            buckets[float(change.labels["le"])] += change.grown or 0.0  # type: ignore[assignment]
        cumulative = sorted(buckets.items())
        return Latency(quantile(cumulative, 0.5), quantile(cumulative, 0.99))


def _growth(before: float, after: float) -> float:
    return after - before if after >= before else after


def quantile(cumulative: Sequence[tuple[float, float]], share: float) -> float | None:
    """Returns a quantile from a histogram's cumulative buckets, as Prometheus computes it.

    Values are spread evenly within a bucket. Beyond the last bound, that bound is returned.

    >>> quantile([(0.1, 5.0), (0.2, 10.0), (float("inf"), 10.0)], 0.5)
    0.1
    """
    if not cumulative or cumulative[-1][1] <= 0:
        return None
    rank = share * cumulative[-1][1]
    below_bound, below = 0.0, 0.0
    for bound, count in cumulative:
        if count >= rank:
            if bound == float("inf"):
                return below_bound
            inside = (rank - below) / (count - below) if count > below else 1.0
            return below_bound + (bound - below_bound) * inside
        below_bound, below = bound, count
    return below_bound


# -- the whole of it ---------------------------------------------------------------------------------------------


def flow(before: MetricsSnapshot | None, after: MetricsSnapshot) -> dict[str, Any]:
    """Returns one document, the same for people, programs and the page."""
    changes = Changes(before, after)
    return {
        "seconds": round(changes.seconds, 3),
        "missing": dict(after.missing),
        "stages": {name: rate.as_json() for name, rate in _stages(changes).items()},
        "latency": _latencies(changes),
        "listeners": _listeners(changes),
        "pairs": _pairs(changes),
        "lag": _lag(changes, after.at),
        "rejected": _rejected(changes),
        "sessions": changes.now("connections", lambda labels: labels["state"] == "open"),
        "interests": changes.now("interests"),
        "realtime": {change.labels["lane"]: bool(change.value) for change in changes.of("lane_realtime")},
    }


def _stages(changes: Changes) -> dict[str, Rate]:
    """Returns the stages in the order in which a frame passes them."""
    frames = "frames_total"

    def routed(stage: Stage, outcome: str) -> Rate:
        return changes.rate(frames, lambda labels: (labels["stage"], labels["outcome"]) == (stage, outcome))

    return {
        "received": changes.rate(RECEIVED),
        "dropped": changes.rate("udp_kernel_dropped_total"),
        "refused": changes.rate("rejected_frames_total", beside=RECEIVED),
        "logged": changes.rate("accepted_frames_total"),
        "decoded": routed(Stage.DECODE, "accepted"),
        "rejected": changes.rate(frames, lambda labels: labels["outcome"] == "rejected"),
        "duplicates": changes.rate("duplicates_total"),
        "events": routed(Stage.MATCH, "event"),
        "routed": routed(Stage.DELIVER, "routed"),
        "delivered": changes.rate("egress_delivered_total", lambda labels: labels["outcome"] in REACHED),
        "undelivered": changes.rate("egress_delivered_total", lambda labels: labels["outcome"] not in REACHED),
    }


def _latencies(changes: Changes) -> dict[str, Any]:
    """acknowledge: from receipt to the acknowledgement; produce: of Kafka alone; route: through the router."""
    names = {
        "acknowledge": "ack_duration_seconds",
        "produce": "produce_duration_seconds",
        "route": "probe_duration_seconds",
        "end_to_end": "end_to_end_duration_seconds",
    }
    return {name: changes.latency(metric).as_json() for name, metric in names.items()}


def _listeners(changes: Changes) -> list[dict[str, Any]]:
    """Returns the listeners in the order in which the edges name them."""
    names = dict.fromkeys(
        (change.labels["edge"], change.labels["listener"], change.labels["protocol"]) for change in changes.of(RECEIVED)
    )
    return [_listener(changes, *name) for name in names if name[1]]


def _listener(changes: Changes, edge: str, listener: str, protocol: str) -> dict[str, Any]:
    def mine(labels: Mapping[str, str]) -> bool:
        return (labels["edge"], labels["listener"]) == (edge, listener)

    return {
        "edge": edge,
        "listener": listener,
        "protocol": protocol,
        "sessions": changes.now("connections", lambda labels: mine(labels) and labels["state"] == "open"),
        "received": changes.rate(RECEIVED, mine).as_json(),
        "delivered": changes.rate(
            "egress_delivered_total", lambda labels: mine(labels) and labels["outcome"] in REACHED
        ).as_json(),
        "refused": changes.rate("rejected_frames_total", mine, beside=RECEIVED).as_json(),
        **changes.latency("ack_duration_seconds", mine).as_json(),
    }


def _pairs(changes: Changes) -> list[dict[str, Any]]:
    """Returns the latency from receipt to delivery for each pair of protocols, the busiest first."""
    pairs = dict.fromkeys(
        (change.labels["from"], change.labels["to"]) for change in changes.of("end_to_end_duration_seconds_count")
    )
    rows = [_pair(changes, *pair) for pair in pairs]
    return sorted(rows, key=lambda row: (-(row["delivered"]["per_second"] or 0), -row["delivered"]["total"]))


def _pair(changes: Changes, origin: str, to: str) -> dict[str, Any]:
    def mine(labels: Mapping[str, str]) -> bool:
        return (labels["from"], labels["to"]) == (origin, to)

    name = "end_to_end_duration_seconds"
    rate, latency = changes.rate(f"{name}_count", mine), changes.latency(name, mine)
    return {"from": origin, "to": to, "delivered": rate.as_json(), **latency.as_json()}


def _lag(changes: Changes, now: float) -> dict[str, float | None]:
    """Returns what waits, and where."""
    committed = changes.latest("last_commit_timestamp_seconds")
    return {
        "raw_records": changes.now("source_lag_records"),
        "egress_records": changes.now("egress_lag_records"),
        "queued_deliveries": changes.now("egress_queue_frames"),
        "in_flight_bytes": changes.now("in_flight_bytes"),
        "requests": changes.now("requests_in_flight"),
        "watermark_seconds": changes.latest("watermark_lag_seconds"),
        "last_commit_seconds": None if committed is None else max(round(now - committed, 1), 0.0),
    }


def _rejected(changes: Changes) -> list[dict[str, Any]]:
    """Returns the refusals at the edges and in the router together, by reason: the most frequent first."""
    edges = changes.rates(["rejected_frames_total"], "reason")
    router = changes.rates(["frames_total"], "reason", lambda labels: labels["outcome"] == "rejected")
    rows = [
        {"reason": reason, "where": where, **rate.as_json()}
        for where, rates in (("edge", edges), ("router", router))
        for reason, rate in rates.items()
    ]
    return sorted(rows, key=lambda row: (-(row["per_second"] or 0), -row["total"]))

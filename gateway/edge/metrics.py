"""The metrics of an edge. Names are fixed (gateway/docs/metrics.md); labels come from closed sets, never a peer or a
node.

A series exists from the start for each listener, so that a rate never begins with a jump. What is a state rather than
a count is looked at when it is asked for, and costs nothing until then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from gateway import __version__
from gateway.config import Config, Endpoint
from gateway.core.reasons import Reason
from gateway.protocols.actions import REQUEST_ENDS, CloseReason, Outcome

EDGE = ("mesh", "edge")
BY_LISTENER = ("listener", "protocol")
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Latencies(Histogram):
    """Takes what was observed together for the price of one."""

    def observe_all(self, seconds: Sequence[float]) -> None:
        counts = Counts(map(partial(bisect_left, self._upper_bounds), seconds))
        for bucket, count in counts.items():
            self._buckets[bucket].inc(count)
        self._sum.inc(sum(seconds))

    def observe_run(self, seconds: NDArray[np.float64], times: int) -> None:
        """Takes an array of what was observed, each item so many times."""
        counts = np.bincount(np.searchsorted(self._upper_bounds, seconds))
        for bucket in np.flatnonzero(counts).tolist():
            self._buckets[bucket].inc(int(counts[bucket]) * times)
        self._sum.inc(float(seconds.sum()) * times)


@dataclass(frozen=True, slots=True)
class EdgeReadings:
    """The functions that an edge's gauges read. `open_requests` is called with the listener's name."""

    in_flight_bytes: Callable[[], float]
    held_bytes: Callable[[], float]
    requests_held: Callable[[], float]
    queue_frames: Callable[[], float]
    egress_lag: Callable[[], float]
    egress_age: Callable[[], float]
    open_requests: Callable[[str], float]
    waiting_streams: Callable[[], float]


class EdgeMetrics:
    def __init__(self, config: Config, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._common = {"mesh": config.mesh, "edge": config.edge.id}
        self._listeners: dict[tuple[str, str], ListenerMetrics] = {}
        self._open_requests: Callable[[str], float] = _none

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"meshgate_{name}", text, (*EDGE, *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"meshgate_{name}", text, (*EDGE, *labels), registry=registry)

        def histogram(name: str, text: str, *labels: str) -> Latencies:
            return Latencies(f"meshgate_{name}", text, (*EDGE, *labels), buckets=LATENCY_BUCKETS, registry=registry)

        self.received_frames = counter("received_frames", "Frames the sockets gave", *BY_LISTENER)
        self.received_bytes = counter("received_bytes", "Bytes the sockets gave", *BY_LISTENER)
        self.accepted_frames = counter("accepted_frames", "Frames logged on all in-sync replicas", *BY_LISTENER)
        self.rejected_frames = counter("rejected_frames", "Frames refused at the edge", *BY_LISTENER, "reason")
        self.kernel_dropped = counter("udp_kernel_dropped", "Datagrams the kernel dropped", *BY_LISTENER)
        self.connections = gauge("connections", "Connections now", *BY_LISTENER, "state")
        self.opened = counter("connections_opened", "Connections accepted or dialled", *BY_LISTENER)
        self.closed = counter("connections_closed", "Connections that ended", *BY_LISTENER, "reason")
        self.throttled_seconds = counter(
            "throttled_seconds", "Time streams were not read for sending much", *BY_LISTENER
        )
        self.ack_seconds = histogram("ack_duration_seconds", "From receipt to acknowledgement", *BY_LISTENER)
        self._produce_seconds = histogram("produce_duration_seconds", "From a record's closing to its acknowledgement")
        self._in_flight_bytes = gauge("in_flight_bytes", "Received and not yet acknowledged by Kafka")
        self._held_bytes = gauge("held_bytes", "Held for sessions: not read, not confirmed, or not sent to the end")
        self._waiting_streams = gauge("waiting_streams", "Streams with more to be read that wait for their turn")
        self._open_requests_held = gauge("open_requests", "Requests that are open: of peers, and at peers")
        self._queue_frames = gauge("egress_queue_frames", "Deliveries not yet written or confirmed")
        self.delivered = counter("egress_delivered", "Deliveries by their end", *BY_LISTENER, "outcome")
        self._egress_lag = gauge("egress_lag_records", "Records of this edge's egress partition not yet handled")
        self._egress_age = gauge("egress_age_seconds", "Of the oldest delivery without an outcome, owed ones aside")
        self.requests_in_flight = gauge("requests_in_flight", "Requests of peers that are open", *BY_LISTENER)
        self.requests = counter("requests", "Requests of peers that ended", *BY_LISTENER, "outcome")
        self._end_to_end = histogram("end_to_end_duration_seconds", "From receipt at an edge to delivery", "from", "to")
        self._expiry = gauge("certificate_expiry_timestamp_seconds", "When a certificate ends", *BY_LISTENER)
        self._lists_expiry = gauge(
            "revocation_list_expiry_timestamp_seconds", "When the first list of tls.crl runs out", *BY_LISTENER
        )
        build = Gauge("meshgate_build_info", "The build", ("version", *EDGE), registry=registry)
        build.labels(version=__version__, **self._common).set(1)
        ProcessCollector(registry=registry)
        self.produced = self._produce_seconds.labels(**self._common).observe
        self._end_to_end_of = cache(self._find_end_to_end)
        for endpoint in config.endpoints:
            self.of(endpoint)

    def of(self, endpoint: Endpoint) -> ListenerMetrics:
        return self.of_name(endpoint.name, endpoint.protocol)

    def of_name(self, listener: str, protocol: str) -> ListenerMetrics:
        """Returns the metrics of a listener or link.

        `listener` is "" for deliveries whose session is gone, and with it what it came by.
        """
        metrics = self._listeners.get((listener, protocol))
        if metrics is None:
            labels = {**self._common, "listener": listener, "protocol": protocol}
            metrics = self._listeners[listener, protocol] = ListenerMetrics(self, labels)
            metrics.watch_requests(lambda: self._open_requests(listener))
        return metrics

    def certificate_expiry(self, endpoint: Endpoint) -> Gauge:
        return self._expiry.labels(**self._common, listener=endpoint.name, protocol=endpoint.protocol)

    def revocation_list_expiry(self, endpoint: Endpoint) -> Gauge:
        return self._lists_expiry.labels(**self._common, listener=endpoint.name, protocol=endpoint.protocol)

    def observe_end_to_end(self, origin: str, to: str, seconds: Sequence[float]) -> None:
        self._end_to_end_of(origin, to).observe_all(seconds)

    def observe_run(self, origin: str, to: str, seconds: NDArray[np.float64], receivers: int) -> None:
        self._end_to_end_of(origin, to).observe_run(seconds, receivers)

    def _find_end_to_end(self, origin: str, to: str) -> Latencies:
        return self._end_to_end.labels(**self._common, **{"from": origin, "to": to})

    def watch(self, readings: EdgeReadings) -> None:
        """Registers the functions that the gauges read."""
        self._in_flight_bytes.labels(**self._common).set_function(readings.in_flight_bytes)
        self._held_bytes.labels(**self._common).set_function(readings.held_bytes)
        self._waiting_streams.labels(**self._common).set_function(readings.waiting_streams)
        self._open_requests_held.labels(**self._common).set_function(readings.requests_held)
        self._queue_frames.labels(**self._common).set_function(readings.queue_frames)
        self._egress_lag.labels(**self._common).set_function(readings.egress_lag)
        self._egress_age.labels(**self._common).set_function(readings.egress_age)
        self._open_requests = readings.open_requests


VERDICTS = frozenset(Reason) - {Reason.TIMEOUT, Reason.OVERLOAD}
"""A session that ends by one of these names had a frame refused, and it counts as refused. All other ends do not."""


class ListenerMetrics:
    """The series of one listener or link, found once."""

    def __init__(self, metrics: EdgeMetrics, labels: dict[str, str]) -> None:
        self.received_frames = metrics.received_frames.labels(**labels)
        self.received_bytes = metrics.received_bytes.labels(**labels)
        self.throttled_seconds = metrics.throttled_seconds.labels(**labels)
        self._accepted = metrics.accepted_frames.labels(**labels)
        self._ack_seconds = metrics.ack_seconds.labels(**labels)
        self.kernel_dropped = metrics.kernel_dropped.labels(**labels)
        self.opened = metrics.opened.labels(**labels)
        self._requests_in_flight = metrics.requests_in_flight.labels(**labels)
        self._rejected = cache(lambda reason: metrics.rejected_frames.labels(**labels, reason=reason))
        self._closed = cache(lambda reason: metrics.closed.labels(**labels, reason=reason))
        self._delivered = cache(lambda outcome: metrics.delivered.labels(**labels, outcome=outcome))
        self._requests = cache(lambda outcome: metrics.requests.labels(**labels, outcome=outcome))
        self.in_state = cache(lambda state: metrics.connections.labels(**labels, state=state))
        for reason in Reason:
            self._rejected(reason.value)
        for reason in (*CloseReason, Reason.RATE_LIMITED):
            self._closed(reason.value)
        for outcome in Outcome:
            self._delivered(str(outcome))
        for ended in REQUEST_ENDS:
            self._requests(ended)
        for state in ConnectionGauge.STATES:
            self.in_state(state)

    def accepted(self, frames: int, seconds: float) -> None:
        """Counts frames that became durable so long after they were received."""
        self._accepted.inc(frames)
        self._ack_seconds.observe(seconds)

    def refused(self, reason: str) -> None:
        """Counts a frame that was received, and goes no further."""
        self.received_frames.inc()
        self.rejected(reason)

    def session_ended(self, reason: str) -> None:
        """Counts a refused frame if its verdict has ended the session."""
        if reason in VERDICTS:
            self.refused(reason)

    def rejected(self, reason: str, count: int = 1) -> None:
        self._rejected(str(reason)).inc(count)

    def closed(self, reason: str) -> None:
        self._closed(str(reason)).inc()

    def delivered(self, outcome: str, count: int = 1) -> None:
        self._delivered(outcome).inc(count)

    def request_ended(self, outcome: str) -> None:
        self._requests(outcome).inc()

    def watch_requests(self, open_requests: Callable[[], float]) -> None:
        self._requests_in_flight.set_function(open_requests)


class ConnectionGauge:
    """Counts one connection from its acceptance to the end of its transport, under the state it is in.

    Each that was opened is closed once, for one reason.
    """

    STATES = ("handshake", "open", "closing")

    def __init__(self, metrics: ListenerMetrics) -> None:
        self._metrics = metrics
        self._state = "handshake"
        self.reason = ""
        metrics.opened.inc()
        metrics.in_state(self._state).inc()

    def opened(self) -> None:
        """Notes that the session stands; what a lost peer has left may hold the handshake, and changes nothing."""
        if not self.reason:
            self._move("open")

    def ended(self, reason: str) -> None:
        """Notes why the connection ended. The first reason is the one that counts."""
        if not self.reason:
            self.reason = str(reason)
            self._metrics.closed(self.reason)
            self._move("closing")

    def gone(self) -> None:
        """Notes that the transport is no more."""
        self.ended("eof")
        self._move("")

    def _move(self, state: str) -> None:
        if self._state:
            self._metrics.in_state(self._state).dec()
        self._state = state
        if state:
            self._metrics.in_state(state).inc()


def _none(_: str) -> float:
    return 0.0

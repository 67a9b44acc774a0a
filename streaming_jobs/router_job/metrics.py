"""The router's metrics. What workers count is read from their files at the time of the scrape (see `counts`), what
Spark tells comes with each committed batch (`progress`), and the rest is looked at every few seconds (`observer`): a
scrape asks nobody, so it is answered while the data path is stuck.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter as Counts
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.config import Config
from gateway.core.reasons import Reason, Stage
from gateway.protocols import protocols as spoken
from streaming_jobs.router_job.checkpoint import last_commit, last_commit_time
from streaming_jobs.router_job.counts import KNOWN_IDS, KNOWN_IDS_BYTES, REBUILD_MILLISECONDS, UNCOUNTED, read_all
from streaming_jobs.router_job.lock import STANDS_BY, is_held
from streaming_jobs.router_job.progress import Progress
from streaming_jobs.routing.collisions import Window, expected
from streaming_jobs.routing.frame_counters import (
    ACCEPTED,
    CONTROL,
    DUPLICATES,
    EVENT,
    FRAMES,
    LOSSES,
    REJECTED,
    ROUTED,
    VERDICTS,
    Series,
)

log = logging.getLogger(__name__)

READY_SECONDS = 60.0
"""A lane whose last probe came through longer ago is not ready; one is sent every 15 s."""
COMMIT_SECONDS = 450.0
"""Nor is one that has not committed for so long: a real-time batch takes 180 s."""
BATCH_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 90.0, 180.5, 181.0, 185.0, 240.0)
"""A real-time batch lasts its 180 s and then some: how much is what matters."""
PROBE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PHASES = (
    "add_batch", "commit_offsets", "get_batch", "latest_offset", "query_planning", "trigger_execution", "wal_commit",
)  # fmt: skip
"""The phases of a batch that Spark times."""
_DECODED = (FRAMES, Stage.DECODE)


@dataclass(slots=True)
class LaneState:
    """The state of one lane as the metrics know it.

    Args:
        probed_at: when a probe frame came back last; None before the first one since the start.
        frames: how many were decoded up to its last commit.
    """

    partition: int
    started_at: float
    probed_at: float | None = None
    committed_at: float | None = None
    watermark_seconds: float | None = None
    frames: int = 0


class RouterMetrics:
    def __init__(self, config: Config, registry: CollectorRegistry) -> None:
        self._checkpoint = Path(config.router.checkpoint)
        self._mesh = config.mesh
        self._wants_standby = config.router.standby
        self.window_seconds = config.replay_window_seconds
        self._lock = threading.Lock()
        self.lanes: dict[str, LaneState] = {}
        self.raw_ends: Mapping[int, int] = {}  # by partition, as the observer has seen them last

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"meshgate_{name}", text, ("mesh", *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"meshgate_{name}", text, ("mesh", *labels), registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"meshgate_{name}", text, ("mesh", *labels), buckets=buckets, registry=registry)

        self._dropped = counter("state_rows_dropped_by_watermark", "Rows lost as late: must stay 0", "lane")
        self._batch_seconds = histogram("batch_duration_seconds", "Of each batch", BATCH_BUCKETS, "lane", "phase")
        self._batch_frames = gauge("batch_frames", "Frames decoded between the last two commits", "lane")
        self._state_rows = gauge("state_rows", "Rows in the dedup state", "lane")
        self._state_bytes = gauge("state_bytes", "Memory of the state store", "lane")
        self._last_commit = gauge(
            "last_commit_timestamp_seconds", "When a batch was last committed, or the lane began", "lane"
        )
        self._restarts = counter("query_restarts", "Queries that failed and were started again in place", "lane")
        self._realtime = gauge("lane_realtime", "1 under the real-time trigger, 0 under micro-batch", "lane")
        self.probe_seconds = histogram("probe_duration_seconds", "From the raw log to a sink", PROBE_BUCKETS, "lane")
        self.interests = gauge("interests", "Interests that hold", "verb")
        self.interests_limit = gauge("interests_limit", "Interests that the mesh may have: subscriptions_per_mesh")
        self.keys = gauge("keys", "Keys of nodes in the trust store", "state")
        self.next_key_expiry = gauge("key_next_expiry_timestamp_seconds", "When the next key ends; 0: none does")
        self.next_node_expiry = gauge(
            "node_next_expiry_timestamp_seconds", "When the next node is left without a key; 0: none is"
        )
        build = Gauge("meshgate_build_info", "The build", ("version", "mesh"), registry=registry)
        build.labels(__version__, self._mesh).set(1)
        ProcessCollector(registry=registry)
        registry.register(_Counted(self, _protocols(config)))

    @property
    def mesh(self) -> str:
        return self._mesh

    # -- told by the job -----------------------------------------------------------------------------------

    def lane_started(self, lane: str, partition: int) -> None:
        """Makes the lane's series, so that a rate never begins with a jump."""
        with self._lock:
            frames = _decoded(self.read([partition])[1])
            self.lanes[lane] = LaneState(partition, time.time(), frames=frames)
        for counted in (self._dropped, self._restarts, self._batch_frames, self._state_bytes, self.probe_seconds):
            counted.labels(self._mesh, lane)
        for phase in PHASES:
            self._batch_seconds.labels(self._mesh, lane, phase)
        folder = self._checkpoint / lane
        if last_commit(folder) is None:
            self._state_rows.labels(self._mesh, lane)
        self._last_commit.labels(self._mesh, lane).set(last_commit_time(folder))

    def probed(self, lane: str, seconds: float) -> None:
        """Counts a probe frame that has gone through the lane to a sink, and is durable there."""
        self.probe_seconds.labels(self._mesh, lane).observe(seconds)
        if self.lanes[lane].probed_at is None:
            log.info("%s routes: its first probe took %.0f ms", lane, seconds * 1000)
        self.lanes[lane].probed_at = time.time()

    def lane_mode(self, lane: str, *, is_realtime: bool) -> None:
        self._realtime.labels(self._mesh, lane).set(is_realtime)

    def lane_restarted(self, lane: str) -> None:
        self._restarts.labels(self._mesh, lane).inc()

    def committed(self, progress: Progress) -> None:
        """Counts a committed batch of a lane. Queries that are no lane of ours are ignored."""
        state = self.lanes.get(progress.lane)
        if state is None:
            return
        label = self._mesh, progress.lane
        self._dropped.labels(*label).inc(progress.dropped_by_watermark)
        for phase, seconds in progress.phase_seconds.items():
            self._batch_seconds.labels(*label, phase).observe(seconds)
        if progress.state_rows is not None:
            self._state_rows.labels(*label).set(progress.state_rows)
        self._state_bytes.labels(*label).set(progress.state_bytes)
        frames = _decoded(self.read([state.partition])[1])
        self._batch_frames.labels(*label).set(frames - state.frames)
        now = time.time()
        self._last_commit.labels(*label).set(now)
        with self._lock:
            state.committed_at, state.watermark_seconds, state.frames = now, progress.watermark_seconds, frames

    def missing(self, now: float) -> dict[str, str]:
        """Returns the lanes that do not route, or have not committed for too long, each with what is missing."""
        missing = {}
        for lane, state in dict(self.lanes).items():
            waited = now - (state.committed_at or state.started_at)
            if waited > COMMIT_SECONDS:
                missing[lane] = f"no batch was committed for {waited:.0f} s"
            elif state.probed_at is None:
                missing[lane] = f"no probe frame has come through yet from raw partition {state.partition}"
            elif now - state.probed_at > READY_SECONDS:
                missing[lane] = f"no probe frame has come through for {now - state.probed_at:.0f} s"
        return missing

    # -- read at the scrape --------------------------------------------------------------------------------

    def read(self, partitions: Iterable[int]) -> tuple[dict[int, int], Mapping[Series, int]]:
        return read_all(self._checkpoint, partitions)

    def standby(self) -> Mapping[str, bool]:
        """Returns whether there should be a warm standby, and whether there is."""
        return {"wanted": self._wants_standby, "warm": is_held(self._checkpoint, STANDS_BY)}

    def processed(self, partition: int) -> int:
        """Returns the next offset of a partition that its worker will take."""
        return self.read([partition])[0].get(partition, 0)


class _Counted(Collector):
    """Collects what the workers have counted, and what follows from it together with what was observed."""

    def __init__(self, metrics: RouterMetrics, protocols: Sequence[str]) -> None:
        self._metrics = metrics
        self._zeros = _series_from_the_start(protocols)
        self._short_ids = {name: bits for name in protocols if (bits := spoken()[name].message_id_bits) is not None}
        self._windows = {name: Window(metrics.window_seconds) for name in self._short_ids}

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        lanes = dict(metrics.lanes)
        of_lanes = {name: metrics.read([lane.partition]) for name, lane in lanes.items()}
        routed = {partition: offset for read, _ in of_lanes.values() for partition, offset in read.items()}
        counts = Counts(self._zeros)
        for _, counted in of_lanes.values():
            counts.update(counted)
        frames = _family(
            "frames", "Frames by stage and what became of them", ("stage", "outcome", "reason", "protocol")
        )
        losses = _family("translation_losses", "What a translation could not say", ("from", "to", "what"))
        verdicts = _family("verdicts", "Accepted frames by how their sender was proven", ("auth", "protocol"))
        families = {FRAMES: frames, LOSSES: losses, VERDICTS: verdicts}
        for (name, *labels), count in counts.items():
            if name in families:
                families[name].add_metric([metrics.mesh, *labels], count)
        yield from families.values()
        uncounted = _family("uncounted", "Counts whose series were too many to keep apart", ())
        uncounted.add_metric([metrics.mesh], counts.get(UNCOUNTED, 0))
        yield uncounted
        yield from self._memory({name: counted for name, (_, counted) in of_lanes.items()})
        yield self._collisions(counts)
        yield self._source_lag(routed)
        yield self._watermark_lag(lanes)
        yield self._standby()

    def _memory(self, of_lanes: Mapping[str, Mapping[Series, int]]) -> Iterator[Metric]:
        """Yields what the lanes' workers know and have dropped as repeats."""
        duplicates = _family("duplicates", "Frames dropped as repeats", ("lane",))
        ids = _gauge("known_ids", "Message ids that a repeat would be known by", ("lane",))
        sizes = _gauge("known_ids_bytes", "Memory of the worker's table of message ids", ("lane",))
        rebuild = _gauge("known_ids_rebuild_seconds", "How long the worker took to read them when it began", ("lane",))
        for lane, counted in of_lanes.items():
            labels = [self._metrics.mesh, lane]
            repeats = sum(count for series, count in counted.items() if series[0] == DUPLICATES)
            duplicates.add_metric(labels, repeats)
            ids.add_metric(labels, counted.get(KNOWN_IDS, 0))
            sizes.add_metric(labels, counted.get(KNOWN_IDS_BYTES, 0))
            rebuild.add_metric(labels, counted.get(REBUILD_MILLISECONDS, 0) / 1000)
        yield from (duplicates, ids, sizes, rebuild)

    def _collisions(self, counts: Mapping[Series, int]) -> Metric:
        text = "Honest frames that equal ids may have cost in the last replay window, at the most"
        metric = _gauge("message_id_collisions_expected", text, ("protocol",))
        for protocol, bits in self._short_ids.items():
            accepted = sum(count for series, count in counts.items() if (series[0], series[-1]) == (VERDICTS, protocol))
            grown = self._windows[protocol].growth(time.monotonic(), accepted)
            metric.add_metric([self._metrics.mesh, protocol], expected(grown, bits))
        return metric

    def _source_lag(self, routed: Mapping[int, int]) -> Metric:
        lag = _gauge("source_lag_records", "Records of the raw log that the workers have not taken", ("partition",))
        for partition, end in self._metrics.raw_ends.items():
            lag.add_metric([self._metrics.mesh, str(partition)], max(end - routed.get(partition, 0), 0))
        return lag

    def _watermark_lag(self, lanes: Mapping[str, LaneState]) -> Metric:
        lag = _gauge("watermark_lag_seconds", "How far the dedup's watermark is behind the clock", ("lane",))
        now = time.time()
        for lane, state in lanes.items():
            if state.watermark_seconds is not None:
                lag.add_metric([self._metrics.mesh, lane], now - state.watermark_seconds)
        return lag

    def _standby(self) -> Metric:
        standby = _gauge("router_standby", "1 if a standby is `wanted`; 1 if one is `warm`", ("state",))
        for state, is_so in self._metrics.standby().items():
            standby.add_metric([self._metrics.mesh, state], is_so)
        return standby


def _family(name: str, text: str, labels: Sequence[str]) -> CounterMetricFamily:
    return CounterMetricFamily(f"meshgate_{name}", text, labels=("mesh", *labels))


def _gauge(name: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"meshgate_{name}", text, labels=("mesh", *labels))


def _decoded(counts: Mapping[Series, int]) -> int:
    return sum(count for series, count in counts.items() if series[:2] == _DECODED)


def _protocols(config: Config) -> list[str]:
    return sorted({endpoint.protocol for endpoint in config.endpoints})


def _series_from_the_start(protocols: Sequence[str]) -> dict[Series, int]:
    """Returns the series at zero before anything was counted, because alarms look at increases."""
    zeros: dict[Series, int] = {}
    for protocol in protocols:
        passed = (Stage.DECODE, ACCEPTED), (Stage.MATCH, EVENT), (Stage.MATCH, CONTROL), (Stage.DELIVER, ROUTED)
        for stage, outcome in passed:
            zeros[FRAMES, stage, outcome, "", protocol] = 0
        for stage in (Stage.DECODE, Stage.MATCH, Stage.DELIVER):
            zeros |= {(FRAMES, stage, REJECTED, reason.value, protocol): 0 for reason in Reason}
    zeros[FRAMES, Stage.LOG, REJECTED, Reason.MALFORMED.value, ""] = 0
    return zeros

"""Tests the router's metrics: from committed batches, from the workers' files, from what it looks at."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.config import Config, parse
from gateway.core.reasons import Reason
from streaming_jobs.router_job.counts import KNOWN_IDS, KNOWN_IDS_BYTES, REBUILD_MILLISECONDS, CountFile, path_of
from streaming_jobs.router_job.metrics import COMMIT_SECONDS, READY_SECONDS, RouterMetrics
from streaming_jobs.router_job.progress import Progress

TOLD = Path(__file__).with_name("progress.json")
MESH = """
mesh: t
router: {checkpoint: state}
listeners: [{name: d, protocol: emm, listen: "udp://127.0.0.1:5050"}]
"""
NAMES = """frames_total duplicates_total batch_duration_seconds batch_frames source_lag_records state_rows state_bytes
watermark_lag_seconds interests translation_losses_total probe_duration_seconds last_commit_timestamp_seconds
state_rows_dropped_by_watermark_total verdicts_total keys key_next_expiry_timestamp_seconds
node_next_expiry_timestamp_seconds known_ids known_ids_bytes known_ids_rebuild_seconds""".split()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return parse(MESH, tmp_path / "meshgate.yaml", os.environ)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(config: Config, registry: CollectorRegistry) -> RouterMetrics:
    return RouterMetrics(config, registry)


def told(**changed: Any) -> Progress:
    return Progress.read({**json.loads(TOLD.read_text()), **changed})


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"meshgate_{name}", {"mesh": "t", **labels})


def test_a_progress_says_what_a_batch_was() -> None:
    progress = told()
    assert (progress.lane, progress.batch) == ("lane-0", 4)
    assert progress.phase_seconds["query_planning"] == 1.347
    assert progress.dropped_by_watermark == 3
    assert (progress.state_rows, progress.state_bytes) == (70, 1_050_720)
    assert progress.watermark_seconds == 1_795_013_940.0


def test_a_store_that_tracks_its_rows_is_believed() -> None:
    state = {**json.loads(TOLD.read_text())["stateOperators"][0], "numRowsTotal": 11}
    assert told(stateOperators=[state]).state_rows == 11


@pytest.mark.parametrize("event_time", [{}, {"watermark": "1970-01-01T00:00:00.000Z"}])
def test_there_is_no_watermark_before_the_first(event_time: dict[str, str]) -> None:
    assert told(eventTime=event_time).watermark_seconds is None


def test_a_query_without_state_tells_zeros() -> None:
    progress = told(stateOperators=[])
    assert (progress.state_rows, progress.dropped_by_watermark) == (None, 0)


def test_every_name_is_typed_from_the_start(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    types = {line.split()[2] for line in generate_latest(registry).decode().splitlines() if line.startswith("# TYPE")}
    assert {f"meshgate_{name}" for name in NAMES} <= types


def test_the_exposition_can_be_parsed(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    metrics.committed(told())
    assert list(text_string_to_metric_families(generate_latest(registry).decode()))


def test_refusals_stand_at_zero_before_the_first(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    for reason in Reason:
        labels = {"stage": "decode", "outcome": "rejected", "reason": reason.value, "protocol": "emm"}
        assert value(registry, "frames_total", **labels) == 0


def test_a_committed_batch_is_told(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    metrics.committed(told())
    metrics.committed(told(batchId=5))
    assert value(registry, "state_rows_dropped_by_watermark_total", lane="lane-0") == 6
    assert value(registry, "state_rows", lane="lane-0") == 70
    assert value(registry, "batch_duration_seconds_count", lane="lane-0", phase="add_batch") == 2
    assert value(registry, "watermark_lag_seconds", lane="lane-0") is not None


def test_a_new_lane_has_its_series_before_its_first_commit(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    for name in ("batch_frames", "state_rows", "state_bytes"):
        assert value(registry, name, lane="lane-0") == 0, name
    for phase in told().phase_seconds:
        assert value(registry, "batch_duration_seconds_sum", lane="lane-0", phase=phase) == 0, phase
    assert value(registry, "last_commit_timestamp_seconds", lane="lane-0") == pytest.approx(time.time(), abs=60)


def test_a_lane_that_goes_on_says_when_it_has_committed_last(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    commits = Path(config.router.checkpoint) / "lane-0" / "commits"
    commits.mkdir(parents=True)
    for batch, at in ((9, 1_000), (10, 2_000)):
        (commits / str(batch)).touch()
        os.utime(commits / str(batch), (at, at))
    metrics.lane_started("lane-0", 0)
    assert value(registry, "last_commit_timestamp_seconds", lane="lane-0") == 2_000
    assert value(registry, "state_rows", lane="lane-0") is None  # Spark has not said how many yet


def test_a_lane_without_a_commit_says_when_it_began_however_often_the_router_starts(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    begun = Path(config.router.checkpoint) / "lane-0" / "metadata"
    begun.parent.mkdir(parents=True)
    begun.touch()
    os.utime(begun, (1_000, 1_000))
    metrics.lane_started("lane-0", 0)
    assert value(registry, "last_commit_timestamp_seconds", lane="lane-0") == 1_000


def test_a_batch_of_a_query_that_is_no_lane_tells_nothing(registry: CollectorRegistry, metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    metrics.committed(told(name="rule-hot"))
    assert value(registry, "state_bytes", lane="lane-0") == 0
    assert value(registry, "state_bytes", lane="rule-hot") is None


def test_the_frames_of_a_batch_are_those_decoded_since_the_last(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    file = CountFile(path_of(Path(config.router.checkpoint), 1))
    file.add(0, {("frames", "decode", "accepted", "", "emm"): 5, ("frames", "match", "event", "", "emm"): 5})
    metrics.lane_started("lane-0", 1)
    file.add(1, {("frames", "decode", "accepted", "", "emm"): 2, ("frames", "decode", "rejected", "stale", "emm"): 1})
    metrics.committed(told())
    assert value(registry, "batch_frames", lane="lane-0") == 3


def test_what_the_workers_counted_is_read_at_the_scrape(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    for partition in (0, 1):
        metrics.lane_started(f"lane-{partition}", partition)
    labels = {"stage": "decode", "outcome": "accepted", "reason": "", "protocol": "emm"}
    for partition in (0, 1):
        CountFile(path_of(Path(config.router.checkpoint), partition)).add(
            0, {("frames", "decode", "accepted", "", "emm"): 4, ("losses", "emm", "emp", "subject"): 1}
        )
    assert value(registry, "frames_total", **labels) == 8
    assert value(registry, "translation_losses_total", **{"from": "emm", "to": "emp", "what": "subject"}) == 2


def test_the_lag_is_what_lies_between_the_end_and_the_workers(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    for partition in (0, 1, 2):
        metrics.lane_started(f"lane-{partition}", partition)
    CountFile(path_of(Path(config.router.checkpoint), 0)).add(9, {})
    CountFile(path_of(Path(config.router.checkpoint), 1)).add(9, {})
    metrics.raw_ends = {0: 30, 1: 4, 2: 6}
    lags = [value(registry, "source_lag_records", partition=str(partition)) for partition in (0, 1, 2)]
    assert lags == [20, 0, 6]
    assert (metrics.processed(0), metrics.processed(2)) == (10, 0)


def test_what_a_worker_knows_and_has_dropped_is_read_at_the_scrape(
    config: Config, registry: CollectorRegistry, metrics: RouterMetrics
) -> None:
    metrics.lane_started("lane-1", 1)
    file = CountFile(path_of(Path(config.router.checkpoint), 1))
    states = {KNOWN_IDS: 7, KNOWN_IDS_BYTES: 64, REBUILD_MILLISECONDS: 1_500}
    file.add(3, {("duplicates", "emm"): 2, ("duplicates", "yamp"): 1}, states)
    file.add(2, {("duplicates", "emm"): 9}, {**states, KNOWN_IDS: 5})  # after a restart: counted before, known anew
    assert value(registry, "duplicates_total", lane="lane-1") == 3
    assert value(registry, "known_ids", lane="lane-1") == 5
    assert value(registry, "known_ids_bytes", lane="lane-1") == 64
    assert value(registry, "known_ids_rebuild_seconds", lane="lane-1") == 1.5


def test_a_lane_is_missing_until_a_probe_has_come_through(metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-2", 2)
    now = metrics.lanes["lane-2"].started_at
    nothing_yet = "no probe frame has come through yet from raw partition 2"
    assert metrics.missing(now) == {"lane-2": nothing_yet}
    metrics.committed(told(name="lane-2"))  # a batch may have been without a frame
    assert metrics.missing(now) == {"lane-2": nothing_yet}
    metrics.probed("lane-2", 0.1)
    assert metrics.missing(now) == {}


def test_a_lane_is_missing_when_no_probe_has_come_through_for_too_long(metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    metrics.probed("lane-0", 0.1)
    probed = metrics.lanes["lane-0"].probed_at
    assert probed is not None
    assert metrics.missing(probed + READY_SECONDS) == {}
    assert metrics.missing(probed + READY_SECONDS + 1) == {"lane-0": "no probe frame has come through for 61 s"}


def test_a_lane_is_missing_when_it_has_not_committed_for_too_long(metrics: RouterMetrics) -> None:
    metrics.lane_started("lane-0", 0)
    metrics.committed(told())
    state = metrics.lanes["lane-0"]
    assert state.committed_at is not None
    state.probed_at = state.committed_at + COMMIT_SECONDS
    assert metrics.missing(state.committed_at + COMMIT_SECONDS) == {}
    assert metrics.missing(state.committed_at + COMMIT_SECONDS + 1) == {"lane-0": "no batch was committed for 451 s"}

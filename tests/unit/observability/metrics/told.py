"""Collects every sample's name with its labels that the product's exporters can tell."""

from __future__ import annotations

import json
import os
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from gateway.config import parse
from gateway.edge.metrics import EdgeMetrics, EdgeReadings
from streaming_jobs.router_job.counts import CountFile, path_of
from streaming_jobs.router_job.jvm import JvmMetrics, Memory
from streaming_jobs.router_job.metrics import RouterMetrics
from streaming_jobs.router_job.progress import Progress

PROGRESS = Path(__file__).with_name("progress.json")
FROM_PROMETHEUS = {"job", "instance"}
CONFIG = """
mesh: t
router: {checkpoint: state}
listeners: [{name: d, protocol: emm, listen: "udp://127.0.0.1:5050"}]
"""


@cache
def families() -> dict[str, list[Metric]]:
    """By the part that tells them."""
    with TemporaryDirectory() as folder:
        path = Path(folder)
        return {"edge": list(_edge(path).collect()), "router": list(_router(path).collect())}


@cache
def told() -> dict[str, set[str]]:
    """By the name of the sample, with the labels that Prometheus adds."""
    found: dict[str, set[str]] = {}
    for family in chain.from_iterable(families().values()):
        for sample in family.samples:
            found.setdefault(sample.name, set(FROM_PROMETHEUS)).update(sample.labels)
    return found


def _edge(folder: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    config = parse(CONFIG, folder / "meshgate.yaml", os.environ)
    metrics = EdgeMetrics(config, registry)
    metrics.watch(
        EdgeReadings(
            in_flight_bytes=lambda: 0, held_bytes=lambda: 0, waiting_streams=lambda: 0, requests_held=lambda: 0,
            queue_frames=lambda: 0,
            egress_lag=lambda: 0, egress_age=lambda: 0, open_requests=lambda _: 0,
        )
    )  # fmt: skip
    metrics.of(config.listeners[0]).closed("eof")
    metrics.certificate_expiry(config.listeners[0]).set(1)
    metrics.revocation_list_expiry(config.listeners[0]).set(1)
    metrics.observe_end_to_end("emm", "hsp", [0.1])
    return registry


def _router(folder: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    metrics = RouterMetrics(parse(CONFIG, folder / "meshgate.yaml", os.environ), registry)
    CountFile(path_of(folder / "state", 0)).add(
        0, {("losses", "emm", "emp", "subject"): 1, ("verdicts", "hmac", "emm"): 1}
    )
    metrics.lane_started("lane-0", 0)
    metrics.lane_mode("lane-0", is_realtime=True)
    metrics.committed(Progress.read(json.loads(PROGRESS.read_text())))
    metrics.raw_ends = {0: 1}
    for gauge, labels in ((metrics.interests, ["subscribe"]), (metrics.keys, ["valid"])):
        gauge.labels("t", *labels).set(1)
    for gauge in (metrics.next_key_expiry, metrics.next_node_expiry, metrics.interests_limit):
        gauge.labels("t").set(1)
    jvm = JvmMetrics()
    jvm._memory, jvm._collections, jvm._threads = {"heap": Memory(1, 1, 1)}, {"G1": (1, 1.0)}, 1
    registry.register(jvm)
    return registry

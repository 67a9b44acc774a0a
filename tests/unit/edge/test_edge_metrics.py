"""Tests an edge's metrics before anything has happened: every name, and every refusal at zero."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.core.reasons import Reason
from gateway.edge.metrics import LATENCY_BUCKETS, ConnectionGauge, EdgeMetrics, Latencies
from gateway.protocols.actions import REQUEST_ENDS
from tests.unit.edge.running import configured, listener

NAMES = """received_frames_total received_bytes_total accepted_frames_total rejected_frames_total
udp_kernel_dropped_total connections connections_opened_total connections_closed_total ack_duration_seconds
produce_duration_seconds in_flight_bytes egress_queue_frames egress_delivered_total egress_lag_records
egress_age_seconds requests_in_flight requests_total end_to_end_duration_seconds certificate_expiry_timestamp_seconds
build_info""".split()
NOBODY = ("peer", "node", "session", "address", "subject")
"""What no label may tell: who it was, or what was said."""


@pytest.fixture
def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    EdgeMetrics(configured(listener("devices", "emm", "udp"), listener("apps", "yamp")), registry)
    return registry


def test_every_name_is_typed_from_the_start(registry: CollectorRegistry) -> None:
    types = {line.split()[2] for line in generate_latest(registry).decode().splitlines() if line.startswith("# TYPE")}
    assert {f"meshgate_{name}" for name in NAMES} <= types


def test_refusals_and_ends_of_requests_stand_at_zero_before_the_first(registry: CollectorRegistry) -> None:
    apps = {"mesh": "test", "edge": "edge-0", "listener": "apps", "protocol": "yamp"}
    for reason in Reason:
        assert registry.get_sample_value("meshgate_rejected_frames_total", apps | {"reason": reason.value}) == 0
    for outcome in REQUEST_ENDS:
        assert registry.get_sample_value("meshgate_requests_total", apps | {"outcome": outcome}) == 0


def test_no_label_names_a_peer_or_what_it_said(registry: CollectorRegistry) -> None:
    labels = {label for family in registry.collect() for sample in family.samples for label in sample.labels}
    assert labels.isdisjoint(NOBODY)


def test_a_session_that_stands_after_its_transport_is_no_more_counts_nowhere() -> None:
    """The edge still takes what a lost peer had sent, its handshake too."""
    registry = CollectorRegistry()
    metrics = EdgeMetrics(configured(listener("apps", "yamp")), registry)
    gauge = ConnectionGauge(metrics.of_name("apps", "yamp"))
    gauge.gone()
    gauge.opened()
    gauge.ended("truncated")
    apps = {"mesh": "test", "edge": "edge-0", "listener": "apps", "protocol": "yamp"}
    for state in ConnectionGauge.STATES:
        assert registry.get_sample_value("meshgate_connections", apps | {"state": state}) == 0


def test_what_is_observed_together_counts_as_if_it_came_one_by_one() -> None:
    seconds = [0.0, *LATENCY_BUCKETS, 0.0011, 29.9, 31.0, *[0.25] * 5]
    told = []
    for together in (True, False):
        registry = CollectorRegistry()
        found = Latencies("took_seconds", "so long", ("to",), buckets=LATENCY_BUCKETS, registry=registry).labels("hsp")
        if together:
            found.observe_all(seconds)
        else:
            for one in seconds:
                found.observe(one)
        samples = [sample for family in registry.collect() for sample in family.samples]
        told.append({(one.name, one.labels.get("le")): one.value for one in samples if "created" not in one.name})
    assert told[0] == pytest.approx(told[1])
    assert told[0]["took_seconds_count", None] == len(seconds)

"""Tests what a release says when it is installed: what is open to whom."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.helm.chart import CHART, LEAST, RENDER_SECONDS, merged
from tests.helm.tools import helm_4

DENY: dict[str, Any] = {"allow": []}


def notes(**values: Any) -> str:
    command = [str(helm_4()), "install", "demo", str(CHART), "--dry-run=client", "--values", "-"]
    given = json.dumps(merged(LEAST, values))
    run = subprocess.run(command, input=given, capture_output=True, text=True, timeout=RENDER_SECONDS, check=True)
    return run.stdout.partition("NOTES:")[2]


def test_by_default_nobody_from_outside_reaches_it_and_strangers_may_do_nothing() -> None:
    said = notes()
    assert "Closed to peers that prove nothing" in said
    assert "Reached from within the cluster alone" in said


@pytest.mark.parametrize(
    ("permissions", "may"),
    [
        ([], "publish, subscribe, serve"),
        ([{"nodes": ["cn:*"], "publish": DENY, "subscribe": DENY, "serve": DENY}], "publish, subscribe, serve"),
        ([{"publish": DENY, "serve": DENY}], "subscribe"),
        ([{"nodes": ["anon:*"], "publish": {"deny": ["admin.>"]}, "subscribe": DENY, "serve": DENY}], "publish"),
        ([{"exposed": False, "publish": DENY, "subscribe": DENY, "serve": DENY}], "publish, subscribe, serve"),
    ],
    ids=str,
)
def test_it_says_what_strangers_may_do(permissions: list[Any], may: str) -> None:
    assert f"where a listener asks for no proof: {may} (permissions)" in notes(permissions=permissions)


def test_it_says_that_peers_come_from_outside_the_cluster() -> None:
    assert "from outside the cluster (service.type: LoadBalancer)" in notes(service={"type": "LoadBalancer"})


def test_it_says_that_a_gateway_or_the_nodes_own_ports_let_peers_in() -> None:
    routes = {"enabled": True, "parentRefs": [{"name": "mesh"}]}
    said = notes(routes=routes, edge={"hostNetwork": True})
    assert "from outside the cluster (routes.enabled, edge.hostNetwork)" in said
    assert "within the cluster alone" not in said


def test_it_says_that_no_policy_guards_edges_on_their_nodes_network() -> None:
    assert "close port 9640 with the nodes' firewall" in notes(edge={"hostNetwork": True})
    assert "firewall" not in notes()


@pytest.mark.parametrize("monitor", ["podMonitor", "serviceMonitor"])
def test_it_says_that_the_policies_keep_prometheus_out(monitor: str) -> None:
    metrics = {monitor: {"enabled": True}}
    assert "networkPolicy.monitoringFrom" in notes(metrics=metrics)
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert "monitoringFrom" not in notes(metrics=metrics, networkPolicy={"monitoringFrom": monitoring})
    assert "monitoringFrom" not in notes(metrics=metrics, networkPolicy={"enabled": False})
    assert "monitoringFrom" not in notes()

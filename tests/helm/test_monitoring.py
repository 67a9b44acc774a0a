"""Tests what watches a release: monitors, rules, dashboards, as files that lie in the chart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.helm.chart import CHART, LEAST, Object, find, merged, of_kind, refusal, render, render_exactly
from tests.helm.schemas import faults

ALERTS = """\
groups:
  - name: meshgate
    rules:
      - alert: EdgeDown
        expr: up{job="edge"} == 0
        for: 5m
        labels: {severity: critical}
        annotations: {summary: '{{ $labels.edge }} has been down for {{ $value | humanize }}'}
"""
DASHBOARD = {"title": "Flow", "panels": [{"legendFormat": "{{edge}} ${listener}"}]}
ON = {"metrics": {"rules": {"enabled": True, "labels": {"release": "p"}}, "dashboards": {"enabled": True}}}


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A chart with one file of each kind."""
    chart = tmp_path / "meshgate"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("ci", "alerts", "dashboards"))
    (chart / "alerts").mkdir()
    (chart / "alerts" / "edges.yaml").write_text(ALERTS)
    (chart / "dashboards").mkdir()
    (chart / "dashboards" / "flow.json").write_text(json.dumps(DASHBOARD))
    return chart


def watching(chart: Path) -> list[Object]:
    return render_exactly(merged(LEAST, ON), chart)


class TestFiles:
    def test_each_file_of_alerts_becomes_rules_as_it_stands(self, watched: Path) -> None:
        rule = find(watching(watched), "PrometheusRule")
        assert faults(rule) == []
        assert rule["metadata"]["name"] == "demo-meshgate-edges"
        assert rule["metadata"]["labels"]["release"] == "p"
        (alert,) = rule["spec"]["groups"][0]["rules"]
        assert alert["annotations"]["summary"] == "{{ $labels.edge }} has been down for {{ $value | humanize }}"

    def test_each_dashboard_becomes_a_config_map_for_grafanas_sidecar(self, watched: Path) -> None:
        found = find(watching(watched), "ConfigMap", "-dashboard-flow")
        assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert found["metadata"]["annotations"] == {"grafana_folder": "Meshgate"}
        assert json.loads(found["data"]["flow.json"]) == DASHBOARD

    @pytest.mark.parametrize(
        ("base", "before"), [("", ""), ("https://git.example.org/m", "https://git.example.org/m/")]
    )
    def test_an_alert_says_where_its_runbook_is_read(self, base: str, before: str) -> None:
        for each in (base, before):
            objects = render(metrics={"rules": {"enabled": True, "runbookBase": each}})
            groups = [group for one in of_kind(objects, "PrometheusRule") for group in one["spec"]["groups"]]
            urls = [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]]
            assert urls
            assert all(url.startswith(f"{before}k8s/RUNBOOKS.md#meshgate") for url in urls)

    def test_a_panels_description_says_where_its_runbooks_are_read(self) -> None:
        base = "https://git.example.org/m"
        metrics = {"rules": {"runbookBase": base}, "dashboards": {"enabled": True}}
        texts = [text for each in of_kind(render(metrics=metrics), "ConfigMap")
                 if "-dashboard-" in each["metadata"]["name"] for text in each["data"].values()]  # fmt: skip
        dashboards = [json.loads(text) for text in texts]
        described = [panel.get("description", "") for one in dashboards for panel in one["panels"]]
        assert sum(words.count("](${runbooks}#") for words in described) > 80
        variables = [each for one in dashboards for each in one["templating"]["list"] if each["name"] == "runbooks"]
        assert len(variables) == len(dashboards)
        assert {each["query"] for each in variables} == {f"{base}/k8s/RUNBOOKS.md"}
        assert not [text for text in texts if "127.0.0.1" in text]

    def test_a_runbook_base_that_is_no_url_is_refused(self) -> None:
        assert "runbookBase" in refusal(metrics={"rules": {"runbookBase": "git.example.org"}})

    def test_without_being_asked_for_there_are_none(self, watched: Path) -> None:
        objects = render_exactly(LEAST, watched)
        assert of_kind(objects, "PrometheusRule") == []
        assert not [each for each in of_kind(objects, "ConfigMap") if "dashboard" in each["metadata"]["name"]]

    def test_all_files_that_the_chart_has_are_shipped_and_well_formed(self) -> None:
        objects = watching(CHART)
        rules = of_kind(objects, "PrometheusRule")
        dashboards = [each for each in of_kind(objects, "ConfigMap") if "-dashboard-" in each["metadata"]["name"]]
        assert len(rules) == len(list((CHART / "alerts").glob("*.yaml")))
        assert len(dashboards) == len(list((CHART / "dashboards").glob("*.json")))
        assert [fault for each in [*rules, *dashboards] for fault in faults(each)] == []
        for each in dashboards:
            for text in each["data"].values():
                assert json.loads(text)["title"]


class TestMonitors:
    def test_a_pod_monitor_finds_edges_and_router(self) -> None:
        objects = render(metrics={"podMonitor": {"enabled": True, "labels": {"release": "p"}, "interval": "5s"}})
        monitor = find(objects, "PodMonitor")
        assert monitor["metadata"]["labels"]["release"] == "p"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint == {"port": "management", "path": "/metrics", "interval": "5s"}
        instance, component = monitor["spec"]["selector"]["matchExpressions"]
        assert (instance["values"], component["values"]) == (["demo"], ["edge", "router"])
        for part in ("edge", "router"):
            pod = find(objects, "StatefulSet", f"-{part}")["spec"]["template"]
            named = [port["name"] for port in pod["spec"]["containers"][0]["ports"]]
            assert endpoint["port"] in named

    def test_service_monitors_find_the_services_that_have_the_port(self) -> None:
        objects = render(metrics={"serviceMonitor": {"enabled": True}})
        for monitor in of_kind(objects, "ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"]
            services = [
                each for each in of_kind(objects, "Service") if wanted.items() <= each["metadata"]["labels"].items()
            ]
            with_port = [each for each in services if "management" in [port["name"] for port in each["spec"]["ports"]]]
            assert len(with_port) == 1

    def test_without_being_asked_for_nothing_is_watched(self) -> None:
        assert not {each["kind"] for each in render()} & {"PodMonitor", "ServiceMonitor"}

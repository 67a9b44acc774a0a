"""Every panel shows something of a mesh at work, and every alert can be computed: by a real Prometheus."""

from __future__ import annotations

import contextlib
import time
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.files import DASHBOARDS
from helm.dashboards.panels import Query
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.prometheus import Prometheus, scraping
from tests.integration.steady_load import everything

ALERTS = sorted((Path(__file__).parents[2] / "helm" / "meshgate" / "alerts").glob("*.yaml"))
SECONDS = 90.0
"""A rate needs a few scrapes. No panel waits for the first commit, which comes after 180 s."""
KEY_SECONDS = 30 * 86_400


@pytest.fixture(scope="module")
def device(mesh: TestMesh) -> Iterator[Device]:
    """Its key has an end."""
    one = Device(mesh.ports["devices"]).trusted_by(mesh)
    store = yaml.safe_load(mesh.keys_file.read_text())
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + KEY_SECONDS))
    for key in store["nodes"][one.node]["keys"].values():
        key["not_after"] = ends
    fresh = mesh.keys_file.with_suffix(".ending")
    fresh.write_text(yaml.safe_dump(store))
    fresh.replace(mesh.keys_file)
    one.subscribe("load.>")
    yield one
    one.close()


@pytest.fixture(scope="module")
def prometheus(mesh: TestMesh, device: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It watches a mesh with a little of everything."""
    with everything(mesh, device), scraping(mesh, tmp_path_factory.mktemp("prometheus"), ALERTS) as running:
        yield running


def shows(prometheus: Prometheus, queries: Mapping[str, str]) -> None:
    """Each gives something, sooner or later; fails with those that do not."""
    empty = dict(queries)

    def none_is_empty() -> bool:
        for place, expression in list(empty.items()):
            if prometheus.now(expression):
                del empty[place]
        return not empty

    with contextlib.suppress(AssertionError):
        wait_until(none_is_empty, "all queries give something", SECONDS)
    assert empty == {}


def queries_of(dashboard: Dashboard) -> Iterator[tuple[str, Query]]:
    for panel in dashboard.panels:
        for query in panel.queries:
            yield f"{panel.title}: {query.legend}", query


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_no_panel_is_empty(prometheus: Prometheus, dashboard: Dashboard) -> None:
    shows(prometheus, {place: query.expression for place, query in queries_of(dashboard) if not query.quiet})


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_what_may_be_empty_is_not_when_it_happens(prometheus: Prometheus, dashboard: Dashboard) -> None:
    """Panels give reasons for it; this traffic does away with all but these."""
    still = {
        "nothing is replayed or redriven",
        "Spark tells it from its second batch on",
        "no listener has a revocation list",
    }
    quiet = [(place, query) for place, query in queries_of(dashboard) if query.quiet and query.quiet not in still]
    shows(prometheus, {place: query.expression for place, query in quiet})


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_there_is_something_to_choose(prometheus: Prometheus, dashboard: Dashboard) -> None:
    for variable in dashboard.to_json()["templating"]["list"]:
        if variable["type"] == "query":
            metric, _, label = variable["query"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            matching = {"match[]": metric.replace("$mesh", ".+").replace("$job", ".+")}
            values = partial(prometheus.ask, f"api/v1/label/{label}/values", **matching)
            wait_until(values, f"{label} of {metric}", SECONDS)


def test_every_alert_is_computed_without_an_error(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, str]]:
        return [rule for group in prometheus.ask("api/v1/rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] != "unknown" for rule in rules()), "every rule was evaluated")
    assert len(rules()) == sum(path.read_text().count("- alert:") for path in ALERTS)
    assert [rule for rule in rules() if rule["health"] != "ok"] == []


def test_what_is_well_raises_no_critical_alarm(prometheus: Prometheus) -> None:
    firing = [alarm for alarm in prometheus.ask("api/v1/alerts")["alerts"] if alarm["state"] == "firing"]
    assert [alarm for alarm in firing if alarm["labels"]["severity"] == "critical"] == []


def test_nobody_can_be_found_in_what_is_told(mesh: TestMesh, prometheus: Prometheus, device: Device) -> None:
    host, port = device.socket.getsockname()
    for part in ("edge", "router"):
        with urllib.request.urlopen(f"http://127.0.0.1:{mesh.ports[part]}/metrics", timeout=5) as answer:
            told = answer.read().decode()
        for secret in (device.node, f"{host}:{port}", f":{port}", "load.packet"):
            assert secret not in told

"""Grafana's server beside a Prometheus, with our dashboards in it as the chart brings them, asked over its API."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from helm.dashboards.dashboard import TAG
from helm.dashboards.files import DASHBOARDS, FOLDER
from tests.integration.mesh import free_port, wait_until
from tests.integration.program import running_program
from tests.integration.prometheus import CHOSEN

START_SECONDS = 120.0
ANSWER_SECONDS = 30.0
SOURCE = "prometheus"
SCRAPE = "15s"
"""What Grafana takes for the time between two scrapes: rates are then over a minute, as in most clusters."""
POINTS = 200
USER, PASSWORD = "admin", "admin"

Json = dict[str, Any]


@dataclass(frozen=True)
class Series:
    """One line of a panel, or one row of a table: times in seconds."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Grafana:
    port: int

    def ask(self, path: str, body: Json | None = None) -> Any:
        credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return json.loads(answer.read())

    def is_well(self) -> bool:
        """It answers, and has taken all dashboards."""
        try:
            return len(self.ask(f"api/search?tag={TAG}")) == len(DASHBOARDS)
        except OSError:
            return False

    def dashboard(self, uid: str) -> Json:
        """Returns the panel as the server has it by now."""
        found: Json = self.ask(f"api/dashboards/uid/{uid}")["dashboard"]
        return found

    def values(self, label: str) -> list[str]:
        """Returns what a variable of the dashboards gives to choose from."""
        found: list[str] = self.ask(f"api/datasources/uid/{SOURCE}/resources/api/v1/label/{label}/values")["data"]
        return found

    def series(self, target: Json, seconds: int) -> list[Series]:
        """Returns what a panel's query gives over the last seconds. What the pages would put in is put in here."""
        expression = target["expr"]
        for variable in ("$mesh", "$job", "$instance"):
            expression = expression.replace(variable, CHOSEN[variable])
        query = {**target, "expr": expression, "datasource": {"type": SOURCE, "uid": SOURCE}}
        query |= {"maxDataPoints": POINTS, "intervalMs": 1_000, "range": not target.get("instant")}
        asked = {"queries": [query], "from": f"now-{seconds}s", "to": "now"}
        found = self.ask("api/ds/query", asked)["results"][target["refId"]]
        return [one for frame in found.get("frames", ()) for one in _series(frame)]


def _series(frame: Json) -> Iterator[Series]:
    """A time and a number by lines; a table has its labels in columns of text."""
    fields, columns = frame["schema"]["fields"], frame["data"]["values"]
    named = dict(zip((field["name"] for field in fields), zip(fields, columns, strict=True), strict=True))
    times: list[float] = next((values for field, values in named.values() if field["type"] == "time"), [])
    numbers = next(((field, values) for field, values in named.values() if field["type"] == "number"), None)
    if numbers is None:
        return
    field, values = numbers
    texts = [(name, column) for name, (of, column) in named.items() if of["type"] == "string"]
    if texts:
        for row, value in enumerate(values):
            yield Series(", ".join(f"{name}={column[row]}" for name, column in texts), ((times[row] / 1000, value),))
        return
    name = field.get("config", {}).get("displayNameFromDS") or json.dumps(field.get("labels", {}))
    points = tuple((at / 1000, value) for at, value in zip(times, values, strict=True) if value is not None)
    if points:
        yield Series(name, points)


@contextmanager
def serving(home: Path, prometheus_port: int, work: Path) -> Iterator[Grafana]:
    port = free_port()
    settings = {
        **{f"paths.{name}": work / name for name in ("data", "logs", "plugins")},
        "paths.provisioning": _provisioned(work / "provisioning", prometheus_port),
        "server.http_addr": "127.0.0.1",
        "server.http_port": port,
        "security.admin_password": PASSWORD,
        "log.level": "warn",
        **dict.fromkeys(("analytics.reporting_enabled", "analytics.check_for_updates"), "false"),
        "analytics.check_for_plugin_updates": "false",
    }
    command = [str(home / "bin" / "grafana"), "server", f"--homepath={home}"]
    command += [f"cfg:default.{name}={value}" for name, value in settings.items()]
    log = work / "grafana.log"
    with running_program(command, log, START_SECONDS):
        running = Grafana(port)
        wait_until(running.is_well, f"Grafana has the dashboards; {log} says why", START_SECONDS)
        yield running


def _provisioned(folder: Path, prometheus_port: int) -> Path:
    source = {
        "name": SOURCE,
        "uid": SOURCE,
        "type": SOURCE,
        "access": "proxy",
        "isDefault": True,
        "url": f"http://127.0.0.1:{prometheus_port}",
        "jsonData": {"timeInterval": SCRAPE, "httpMethod": "POST"},
    }
    dashboards = {"name": "meshgate", "type": "file", "options": {"path": str(FOLDER)}}
    for name, given in (
        ("datasources", {"apiVersion": 1, "datasources": [source]}),
        ("dashboards", {"apiVersion": 1, "providers": [dashboards]}),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "meshgate.yaml").write_text(yaml.safe_dump(given))
    return folder

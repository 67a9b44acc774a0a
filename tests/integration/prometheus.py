"""A real Prometheus that scrapes a mesh, and is asked over its API."""

from __future__ import annotations

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.debian import sid_program
from tests.integration.mesh import TestMesh, free_port, wait_until
from tests.integration.program import running_program

START_SECONDS = 60.0
ANSWER_SECONDS = 10.0
SCRAPE_SECONDS = 1
JOB = "mesh"
CHOSEN = {"$mesh": ".+", "$job": JOB, "$instance": ".+", "$__rate_interval": "1m"}
"""What stands in Grafana's variables: all there is, and rates over a minute, as for scrapes a quarter minute apart."""


def prometheus_program(name: str) -> Path:
    """`prometheus` or `promtool`, of version 3."""
    return sid_program(f"/usr/bin/{name}", "prometheus", "promtool").path


@dataclass(frozen=True)
class Prometheus:
    port: int

    def ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            return json.loads(answer.read())["data"]

    def now(self, expression: str) -> dict[str, float]:
        """A panel's query, by its series; a value that is no number is none."""
        for variable, value in CHOSEN.items():
            expression = expression.replace(variable, value)
        rows = self.ask("api/v1/query", query=expression)["result"]
        found = {json.dumps(row["metric"], sort_keys=True): float(row["value"][1]) for row in rows}
        return {labels: value for labels, value in found.items() if not math.isnan(value)}

    def is_up(self) -> bool:
        try:
            return 1.0 in self.now("up{job=~'$job'}").values()
        except OSError:
            return False


@contextmanager
def scraping(mesh: TestMesh, folder: Path, rules: list[Path]) -> Iterator[Prometheus]:
    port = free_port()
    targets = [f"127.0.0.1:{mesh.ports[part]}" for part in ("edge", "router")]
    config = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str(rule) for rule in rules],
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": targets}]}],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [str(prometheus_program("prometheus")), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    log = folder / "prometheus.log"
    with running_program(command, log, START_SECONDS):
        running = Prometheus(port)
        wait_until(running.is_up, f"a scrape; {log} says why", START_SECONDS)
        yield running

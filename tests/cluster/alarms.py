"""A Prometheus on the node that finds the pods as the chart's PodMonitor does, with the chart's alerts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.images import ROOT
from tests.cluster.node import NAMESPACE, Node
from tests.cluster.release import until
from tests.integration.prometheus import Prometheus

PORT = 9090
PATIENCE, WINDOW = "2s", ("[2m]", "[20s]")
"""A game day does not wait for minutes: so long must an expression hold, and so short is a window of two minutes."""
SCRAPE = "2s"
ALERT_SECONDS = 60.0
PART, COMPONENT = "edge|router", "__meta_kubernetes_pod_label_app_kubernetes_io_component"
START_SECONDS, END_SECONDS = 60.0, 20.0


class Alarms:
    """Asks Prometheus what it knows of the mesh."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus

    def firing(self) -> set[str]:
        rows = self._prometheus.ask("api/v1/query", query='ALERTS{alertstate="firing"}')["result"]
        return {row["metric"]["alertname"] for row in rows}

    def went_off(self, since: float) -> set[str]:
        """Returns the alerts that have fired since a moment of `time.monotonic`."""
        query = f'present_over_time(ALERTS{{alertstate="firing"}}[{int(time.monotonic() - since) + 1}s])'
        return {row["metric"]["alertname"] for row in self._prometheus.ask("api/v1/query", query=query)["result"]}

    def wait(self, alert: str, seconds: float = ALERT_SECONDS) -> str:
        begun = time.monotonic()
        until(f"{alert} fires; these do: {self.firing()}", lambda: alert in self.firing(), seconds)
        return f"{alert} fires after {time.monotonic() - begun:.0f} s"

    def wait_over(self, alert: str) -> None:
        until(f"{alert} is over", lambda: alert not in self.firing(), ALERT_SECONDS)

    def is_seen(self, part: str, count: int) -> bool:
        """True if so many pods of a part are scraped."""
        return len(self._prometheus.ask("api/v1/query", query=f'up{{part="{part}"}} == 1')["result"]) == count


@contextmanager
def watching(node: Node, program: Path) -> Iterator[Alarms]:
    folder = node.folder / "prometheus"
    folder.mkdir()
    keep = [
        {"source_labels": [COMPONENT], "regex": PART, "action": "keep"},
        {"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": "management", "action": "keep"},
        {"source_labels": [COMPONENT], "target_label": "part"},
    ]
    pods = {"role": "pod", "kubeconfig_file": str(node.kubeconfig), "namespaces": {"names": [NAMESPACE]}}
    config = {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": SCRAPE},
        "rule_files": [str(_hasty(path, folder)) for path in sorted((ROOT / "helm/meshgate/alerts").glob("*.yaml"))],
        "scrape_configs": [{"job_name": "mesh", "kubernetes_sd_configs": [pods], "relabel_configs": keep}],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    command = [str(program), f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{PORT}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        alarms = Alarms(Prometheus(PORT))
        until(f"Prometheus scrapes; {folder / 'log'} says why", lambda: _scrapes(alarms), START_SECONDS)
        yield alarms
    finally:
        process.terminate()
        process.wait(END_SECONDS)


def _scrapes(alarms: Alarms) -> bool:
    try:
        return alarms.is_seen("router", 1) and alarms.is_seen("edge", 2)
    except OSError:
        return False


def _hasty(path: Path, folder: Path) -> Path:
    """Returns a copy of a file of alerts that fire soon after their expressions hold."""
    content = yaml.safe_load(path.read_text())
    for group in content["groups"]:
        for rule in group["rules"]:
            rule["expr"] = rule["expr"].replace(*WINDOW)
            if "for" in rule:
                rule["for"] = PATIENCE
    copy = folder / path.name
    copy.write_text(yaml.safe_dump(content))
    return copy

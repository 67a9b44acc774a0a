"""The dashboards in a real Grafana, over a real Prometheus, over a mesh at work:

    python -m tests.grafana [--to FOLDER] [--seconds 180]

Grafana's server has to take every dashboard, and answer every query of every panel with something: what is empty, and
does not say why it may be, fails. What the panels show is drawn into FOLDER, a picture for each dashboard.

The first time it builds that server (Go and gcc, some ten minutes); Prometheus comes from Debian.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.files import DASHBOARDS
from tests.grafana.build import grafana_home
from tests.grafana.picture import svg
from tests.grafana.server import Grafana, Json, Series, serving
from tests.integration.conftest import LISTENERS
from tests.integration.emm_peer import Device
from tests.integration.mesh import running_mesh
from tests.integration.prometheus import scraping
from tests.integration.steady_load import everything
from tests.unit.edge.certificates import Authority

PATIENCE_SECONDS = 60
"""A rate needs a few scrapes."""
PAUSE_SECONDS = 2


def main() -> int:
    asked = _arguments()
    home = grafana_home()
    with ExitStack() as running:
        work = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="meshgate-grafana-")))
        authority = Authority(_made(work / "certificates"))
        tls = authority.signs("mesh") | {"client_ca": str(authority.ca)}
        plant: dict[str, object] = {"name": "plant", "protocol": "hsp", "scheme": "tls", "tls": tls}
        mesh = running.enter_context(running_mesh(work / "mesh", [*(dict(one) for one in LISTENERS), plant]))
        device = Device(mesh.ports["devices"]).trusted_by(mesh)
        running.callback(device.close)
        device.subscribe("load.>")
        running.enter_context(everything(mesh, device))
        prometheus = running.enter_context(scraping(mesh, _made(work / "prometheus"), []))
        grafana = running.enter_context(serving(home, prometheus.port, _made(work / "grafana")))
        print(f"a mesh under load, for {asked.seconds} s", flush=True)
        time.sleep(asked.seconds)
        empty = [place for one in DASHBOARDS for place in _shown(grafana, one, asked.seconds, asked.to)]
    for place in empty:
        print(f"EMPTY: {place}", file=sys.stderr)
    return 1 if empty else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.grafana", description="Every panel, through Grafana's API.")
    parser.add_argument("--to", type=Path, default=Path("build/dashboards"), help="where the pictures go")
    parser.add_argument("--seconds", type=int, default=180, help="how long the mesh works before it is asked")
    return parser.parse_args()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _shown(grafana: Grafana, dashboard: Dashboard, seconds: int, folder: Path) -> Iterator[str]:
    """Draws it; what is empty and should not be."""
    taken = grafana.dashboard(f"meshgate-{dashboard.uid}")
    choices = {label: grafana.values(label) for label in ("mesh", "job", "instance")}
    yield from (f"{dashboard.title}: nothing to choose for {label}" for label, values in choices.items() if not values)
    answers: dict[int, list[Series]] = {}
    panels = [panel for panel in taken["panels"] if panel["type"] != "row"]
    for panel, made in zip(panels, dashboard.panels, strict=True):
        for target, query in zip(panel["targets"], made.queries, strict=True):
            found = _series(grafana, target, seconds, patience=0 if query.quiet else PATIENCE_SECONDS)
            answers.setdefault(panel["id"], []).extend(found)
            if not found:
                place = f"{dashboard.title} / {panel['title']}: {query.legend}"
                print(f"{place}: nothing, for {query.quiet}" if query.quiet else place, flush=True)
                yield from () if query.quiet else (place,)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{dashboard.uid}.svg"
    picture.write_text(svg(taken, answers))
    print(f"{dashboard.title}: {len(panels)} panels, drawn in {picture}", flush=True)


def _series(grafana: Grafana, target: Json, seconds: int, patience: float) -> list[Series]:
    deadline = time.monotonic() + patience
    while not (found := grafana.series(target, seconds)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return found


if __name__ == "__main__":
    sys.exit(main())

"""The files that Grafana reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from helm.dashboards.dashboard import Dashboard
from helm.dashboards.edges import EDGES
from helm.dashboards.flow import FLOW
from helm.dashboards.router import ROUTER
from helm.dashboards.security import SECURITY

FOLDER = Path(__file__).parents[1] / "meshgate" / "dashboards"
DASHBOARDS: tuple[Dashboard, ...] = (FLOW, EDGES, ROUTER, SECURITY)


def files() -> dict[Path, str]:
    """Returns what must stand in each."""
    return {
        FOLDER / f"{one.uid}.json": json.dumps(one.to_json(), indent=2, ensure_ascii=False) + "\n" for one in DASHBOARDS
    }


def stale() -> list[Path]:
    """Files that are missing, differ, or that no dashboard made."""
    wanted = files()
    differing = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    return differing + sorted(set(FOLDER.glob("*.json")) - set(wanted))


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        for path in (found := stale()):
            print(f"{path} is not what the code says: run python -m helm.dashboards", file=sys.stderr)
        return int(bool(found))
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
    return 0

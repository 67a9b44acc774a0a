"""A whole dashboard as Grafana reads it, with the variables that all of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helm.dashboards.panels import DATASOURCE, Json, Panel, Row, laid_out
from helm.dashboards.runbooks import READ_AT, VARIABLE

SCHEMA = 38
"""Of Grafana 10; newer ones read it and bring it up to date."""
REFRESH_ON_TIME_RANGE = 2
REFRESH_ON_LOAD = 1
HIDDEN = 2
TAG = "meshgate"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`part` chooses the instances it is about, by labels of `meshgate_build_info`."""

    uid: str
    title: str
    description: str
    part: str
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)

    def to_json(self) -> Json:
        return {
            "uid": f"meshgate-{self.uid}",
            "title": f"Meshgate / {self.title}",
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [_links()],
            "templating": {"list": self._variables()},
            "annotations": {"list": []},
            "panels": laid_out(self.rows),
        }

    def _variables(self) -> list[Json]:
        about = f"meshgate_build_info{{{self.part}}}"
        within = f'meshgate_build_info{{mesh=~"$mesh",{self.part}}}'
        running = f'meshgate_build_info{{mesh=~"$mesh",job=~"$job",{self.part}}}'
        return [
            _datasource(),
            _runbooks(),
            _labels("mesh", "Mesh", about),
            _labels("job", "Job", within),
            _labels("instance", "Instance", running),
        ]


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": REFRESH_ON_LOAD,
        "hide": 0,
    }


def _runbooks() -> Json:
    """Where the links of the descriptions lead."""
    value = {"text": READ_AT, "value": READ_AT}
    return {
        "name": VARIABLE,
        "label": "Runbooks",
        "type": "constant",
        "query": READ_AT,
        "current": value,
        "options": [value | {"selected": True}],
        "hide": HIDDEN,
        "skipUrlSync": True,
    }


def _labels(label: str, title: str, metric: str) -> Json:
    everything: dict[str, Any] = {"selected": True, "text": "All", "value": "$__all"}
    return {
        "name": label,
        "label": title,
        "type": "query",
        "datasource": DATASOURCE,
        "query": f"label_values({metric}, {label})",
        "refresh": REFRESH_ON_TIME_RANGE,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": everything,
        "hide": 0,
    }


def _links() -> Json:
    """Links to the other dashboards, with the same time; each has instances of its own."""
    return {
        "type": "dashboards",
        "title": "Meshgate",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": True,
        "targetBlank": False,
    }

"""What stands on a dashboard: panels with their queries, and rows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from helm.dashboards.runbooks import link, runbooks

Json = dict[str, Any]
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
GRID_WIDTH = 24
HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8}
_LINES = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
"""A gap is a gap: lines that span it would show a dead exporter as a quiet one."""

Kind = Literal["stat", "timeseries", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` names the series: words, with labels in `{{braces}}`. `quiet`: why a healthy mesh may have none of them;
    empty where there always are some."""

    expression: str
    legend: str
    quiet: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Args:
        steps: from which value on it turns which colour.
        runbook: the section of the runbooks that says what to do when it looks wrong, where no alert watches it or
            where another section says more.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind
    width: int
    stacked: bool = False
    steps: tuple[tuple[float, str], ...] = ()
    runbook: str = ""

    def to_json(self, number: int, x: int, y: int) -> Json:
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self._explained(),
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": HEIGHTS[self.kind]},
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": _OPTIONS[self.kind],
            "targets": list(self._targets()),
        }

    def _explained(self) -> str:
        """Returns the description with links to the runbooks."""
        own = [self.runbook] if self.runbook else []
        sections = dict.fromkeys([*own, *runbooks(query.expression for query in self.queries)])
        return f"{self.description}\n\nRunbooks: {', '.join(map(link, sections))}."

    def _defaults(self) -> Json:
        steps = [{"color": "green", "value": None}, *({"color": color, "value": at} for at, color in self.steps)]
        defaults: Json = {"unit": self.unit, "color": {"mode": "palette-classic"}}
        if self.kind == "timeseries":
            stacking = {"mode": "normal" if self.stacked else "none", "group": "A"}
            defaults |= {"min": 0, "custom": {**_LINES, "stacking": stacking}}
        elif self.steps:
            defaults |= {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}
        if all(query.quiet for query in self.queries):
            defaults["noValue"] = "; ".join(dict.fromkeys(query.quiet for query in self.queries))
        return defaults

    def _targets(self) -> Iterator[Json]:
        for place, query in enumerate(self.queries):
            target: Json = {"refId": chr(ord("A") + place), "expr": query.expression, "legendFormat": query.legend}
            if self.kind == "table":
                target |= {"instant": True, "format": "table"}
            yield target | {"datasource": DATASOURCE}


_OPTIONS: Mapping[str, Json] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "auto",
    },
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    stacked: bool = False,
    runbook: str = "",
) -> Panel:
    """Returns how it went, over the time that is shown."""
    return Panel(title, description, unit, queries, "timeseries", width, stacked, runbook=runbook)


def stat(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int,
    steps: tuple[tuple[float, str], ...] = (),
    runbook: str = "",
) -> Panel:
    """Returns how it is now, in large figures."""
    return Panel(title, description, unit, queries, "stat", width, steps=steps, runbook=runbook)


def table(title: str, description: str, unit: str, *queries: Query, width: int, runbook: str = "") -> Panel:
    """Returns what there is now, by its labels."""
    return Panel(title, description, unit, queries, "table", width, runbook=runbook)


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side, in as many lines as they need."""

    title: str
    panels: tuple[Panel, ...]

    def to_json(self, number: int, y: int) -> Json:
        place = {"x": 0, "y": y, "w": GRID_WIDTH, "h": 1}
        return {"id": number, "type": "row", "title": self.title, "collapsed": False, "gridPos": place, "panels": []}


def row(title: str, *panels: Panel) -> Row:
    return Row(title, panels)


def laid_out(rows: Sequence[Row]) -> list[Json]:
    """From left to right, and down where the line is full."""
    placed: list[Json] = []
    y = 0
    for row in rows:
        placed.append(row.to_json(len(placed) + 1, y))
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > GRID_WIDTH:
                x, y, height = 0, y + height, 0
            placed.append(panel.to_json(len(placed) + 1, x, y))
            x, height = x + panel.width, max(height, HEIGHTS[panel.kind])
        y += height
    return placed

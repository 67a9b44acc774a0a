"""Finds the runbooks that explain a panel: those of the alerts that watch one of its metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import yaml

PAGE = "k8s/RUNBOOKS.md"
READ_AT = "http://127.0.0.1:9642/runbooks.html"
"""Where the runbooks are read: `meshgate docs --port 9642` and the compose file serve them there. The chart has its
`runbookBase` instead."""
VARIABLE = "runbooks"
ALERTS = Path(__file__).parents[1] / "meshgate" / "alerts"
_METRIC = re.compile(r"\bmeshgate_\w+")
_IN_MANY_QUERIES = "meshgate_build_info"
"""Says which mesh a series belongs to; it is no alert's own."""


def runbooks(expressions: Iterable[str]) -> list[str]:
    """Returns the sections of the runbooks, in the order of the alerts."""
    shown = set(_METRIC.findall(" ".join(expressions)))
    return [url.partition("#")[2] for url, watched in _alerts() if watched in shown]


def link(section: str) -> str:
    """Returns a link to a section, as Grafana's descriptions take it."""
    return f"[{section}](${{{VARIABLE}}}#{section})"


@cache
def _alerts() -> tuple[tuple[str, str], ...]:
    """Returns each alert's runbook with the metric that it watches: the first one that its expression asks for."""
    found = []
    for path in sorted(ALERTS.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                metrics = [name for name in _METRIC.findall(str(rule["expr"])) if name != _IN_MANY_QUERIES]
                if metrics:
                    found.append((rule["annotations"]["runbook_url"], metrics[0]))
    return tuple(found)

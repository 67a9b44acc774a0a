"""A dashboard's answers as one picture, panel by panel where Grafana would put them. SVG, written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from tests.grafana.server import Series

COLUMN, LINE, GAP = 64, 34, 6
"""Pixels of a cell of Grafana's grid, and between panels."""
TITLE, LEGEND_LINE, SHOWN = 22, 13, 5
COLOURS = ("#2a6fbb", "#d98200", "#3a8f4d", "#b8322a", "#7b4fa3", "#178a8a", "#8a6d3b", "#c2548c")
STYLE = (
    "text{font:11px sans-serif;fill:#333}.title{font-weight:bold}"
    ".row{font-size:14px;font-weight:bold}.big{font-size:20px}"
)

Answers = Mapping[int, Sequence[Series]]
"""By the panel's id."""


def svg(dashboard: Mapping[str, Any], answers: Answers) -> str:
    """The picture, which is as wide as Grafana's grid."""
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width, height = 24 * COLUMN, bottom * LINE
    parts = [part for panel in dashboard["panels"] for part in _panel(panel, answers.get(panel["id"], ()))]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    ground = f'<rect width="{width}" height="{height}" fill="#f4f4f4"/>'
    return "\n".join((head, f"<style>{STYLE}</style>", ground, *parts, "</svg>\n"))


def _panel(panel: Mapping[str, Any], series: Sequence[Series]) -> Iterator[str]:
    at = panel["gridPos"]
    x, y, wide, high = at["x"] * COLUMN, at["y"] * LINE, at["w"] * COLUMN - GAP, at["h"] * LINE - GAP
    if panel["type"] == "row":
        yield _text(x + 4, y + 20, panel["title"], "row")
        return
    unit = panel["fieldConfig"]["defaults"]["unit"]
    yield f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="#fff" stroke="#ccc"/>'
    yield _text(x + 6, y + 15, f"{panel['title']} ({unit})", "title")
    if not series:
        yield _text(x + 6, y + 36, "nothing")
    elif panel["type"] == "timeseries":
        legend = LEGEND_LINE * min(len(series), SHOWN)
        yield from _lines(series, x + 44, y + TITLE, wide - 52, high - TITLE - 18 - legend)
        yield from _legend(series, x + 8, y + high + 4 - legend)
    else:
        yield from _figures(series, x + 8, y + TITLE + 16, high, is_stat=panel["type"] == "stat")


def _lines(series: Sequence[Series], x: float, y: float, wide: float, high: float) -> Iterator[str]:
    times = [at for one in series for at, _ in one.points]
    begin, span = min(times), max(max(times) - min(times), 1.0)
    most = max(max(value for one in series for _, value in one.points), 1e-9)
    for share in (0.0, 0.5, 1.0):
        level = y + high * (1 - share)
        yield f'<line x1="{x}" x2="{x + wide}" y1="{level:.1f}" y2="{level:.1f}" stroke="#ddd"/>'
        yield _text(x - 4, level + 4, _figure(most * share), anchor="end")
    for place, one in enumerate(series):
        places = ((x + (at - begin) / span * wide, y + high * (1 - max(value, 0) / most)) for at, value in one.points)
        path = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
        yield f'<polyline points="{path}" fill="none" stroke="{_colour(place)}" stroke-width="1.5"/>'


def _legend(series: Sequence[Series], x: float, y: float) -> Iterator[str]:
    for place, one in enumerate(series[:SHOWN]):
        more = f" (and {len(series) - SHOWN} more)" if place == SHOWN - 1 and len(series) > SHOWN else ""
        said = f"{one.name}: {_figure(one.points[-1][1])}{more}"
        yield f'<rect x="{x}" y="{y + place * LEGEND_LINE - 7}" width="8" height="8" fill="{_colour(place)}"/>'
        yield _text(x + 12, y + place * LEGEND_LINE, said)


def _figures(series: Sequence[Series], x: float, y: float, high: float, *, is_stat: bool) -> Iterator[str]:
    step = 26 if is_stat else 15
    for place, one in enumerate(series[: max(int((high - TITLE) // step), 1)]):
        value = _figure(one.points[-1][1])
        yield _text(x, y + place * step, f"{value}  {one.name}", "big" if is_stat else "")


def _text(x: float, y: float, said: str, style: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(said[:110])}</text>'


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _figure(value: float) -> str:
    """
    >>> _figure(0.00123), _figure(12.3456), _figure(1_050_720.0)
    ('0.00123', '12.3', '1.05 M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"

"""A run as a picture: how the latencies are distributed, and how they went by. SVG, written by hand.

The left half spreads the tail: each decade on its axis is one nine more (90 %, 99 %, 99.9 %). Latencies are on a
logarithmic axis on both sides, for a stall is a hundred times the median and both must be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 400
TOP, BOTTOM = 64, 344
_COLOURS = {"p50": "#2a6fbb", "p99": "#d98200", "max": "#b8322a", "now": "#2a6fbb", "last": "#999999"}
_STYLE = (
    "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.grid{stroke:#ddd}.frame{stroke:#888}"
)

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to places. `ticks` are keyed by their labels."""

    low: float
    high: float
    start: float
    end: float
    ticks: Mapping[str, float]

    def place(self, value: float) -> float:
        """Returns the place of a value on the axis.

        >>> Axis(0.0, 10.0, 100.0, 200.0, {}).place(5.0)
        150.0
        """
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def svg(report: Mapping[str, Any]) -> str:
    """The picture of a run's document; with the earlier run's curve behind it, where it was compared with one."""
    curves = {"now": _points(report["curve"])}
    if report.get("compared", {}).get("curve"):
        curves["last"] = _points(report["compared"]["curve"])
    by_second = {name: [(row["second"], row[name]) for row in report["timeline"]] for name in ("max", "p99", "p50")}
    height = _latency_axis([value for line in (*curves.values(), *by_second.values()) for _, value in line])
    nines = _nines_axis([quantile for line in curves.values() for quantile, _ in line])
    seconds = _seconds_axis([second for line in by_second.values() for second, _ in line])
    parts = (
        *_title(report),
        *_panel("latency by percentile, ms", nines, height),
        *_lines(curves, nines, height, _nines),
        *_panel("latency by second, ms", seconds, height),
        *_lines(by_second, seconds, height, float),
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _points(curve: Iterable[Sequence[float]]) -> list[Point]:
    return [(point[0], point[1]) for point in curve]


def _nines(quantile: float) -> float:
    """Returns the number of nines; the whole is put a nine beyond what the others reach.

    >>> [round(_nines(quantile), 3) for quantile in (0.0, 0.9, 0.999)]
    [0.0, 1.0, 3.0]
    """
    return math.log10(1 / (1 - quantile)) if quantile < 1 else math.inf


def _nines_axis(quantiles: Sequence[float]) -> Axis:
    most = max((math.ceil(_nines(quantile)) for quantile in quantiles if quantile < 1), default=1)
    labels = ("0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %")
    ticks = {label: float(nines) for nines, label in enumerate(labels) if nines <= most}
    return Axis(0.0, most + 1.0, 64, 464, {**ticks, "max": most + 1.0})


def _seconds_axis(seconds: Sequence[float]) -> Axis:
    low, high = min(seconds, default=0), max(seconds, default=0)
    high = max(high, low + 1)
    step = max(1, round((high - low) / 6))
    ticks = {f"{second:g} s": float(second) for second in range(int(low), int(high) + 1, step)}
    return Axis(low, high, 544, 904, ticks)


def _latency_axis(values: Sequence[float]) -> Axis:
    """Returns an axis of whole decades around what there is."""
    positive = [value for value in values if value > 0]
    low = math.floor(math.log10(min(positive, default=1.0)))
    high = max(math.ceil(math.log10(max(positive, default=1.0))), low + 1)
    return Axis(low, high, BOTTOM, TOP, {f"{10.0**decade:g}": float(decade) for decade in range(low, high + 1)})


def _logarithm(value: float, axis: Axis) -> float:
    return math.log10(value) if value > 0 else axis.low


def _title(report: Mapping[str, Any]) -> Iterable[str]:
    work, rates, frames = report["work"], report["per_second"], report["frames"]
    path = f"{work['origin']} → {work['target']}" + (f" → {work['origin']}" if work["request"] else "")
    summary = f"{path}: {rates['offered']:,.0f}/s offered, {rates['achieved']:,.0f}/s achieved, {frames['lost']:,} lost"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield _text(64, 28, summary, "title")


def _panel(title: str, across: Axis, up: Axis) -> Iterable[str]:
    yield _text(across.start, TOP - 12, title)
    for label, value in up.ticks.items():
        y = up.place(value)
        yield f'<line class="grid" x1="{across.start}" x2="{across.end}" y1="{y}" y2="{y}"/>'
        yield _text(across.start - 8, y + 4, label, anchor="end")
    for label, value in across.ticks.items():
        x = across.place(value)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{BOTTOM}"/>'
        yield _text(x, BOTTOM + 18, label, anchor="middle")
    yield f'<path class="frame" fill="none" d="M{across.start} {TOP}V{BOTTOM}H{across.end}"/>'


def _lines(lines: Mapping[str, list[Point]], across: Axis, up: Axis, scale: Callable[[float], float]) -> Iterable[str]:
    for number, (name, points) in enumerate(lines.items()):
        placed = (
            f"{across.place(min(scale(x), across.high))},{up.place(_logarithm(value, up))}" for x, value in points
        )
        dashes = ' stroke-dasharray="5 4"' if name == "last" else ""
        yield f'<polyline fill="none" stroke="{_COLOURS[name]}" stroke-width="2"{dashes} points="{" ".join(placed)}"/>'
        if len(lines) > 1:
            x = across.start + 60 * number
            yield f'<rect x="{x}" y="{BOTTOM + 30}" width="12" height="12" fill="{_COLOURS[name]}"/>'
            yield _text(x + 18, BOTTOM + 40, name)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'

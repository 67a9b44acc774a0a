"""Runs of many contenders as one table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEADS = ("rate/s", "contender", "offered/s", "lost", "p50 ms", "p99 ms", "CPU µs/frame", "of that broker")
KEPT_UP_LOST, KEPT_UP_MS = 0.001, 1_000.0
"""Who loses more than one in a thousand, or is a second behind at the median, does not keep up."""


@dataclass(frozen=True, slots=True)
class Step:
    """One contender at one rate: its document, or why there is none."""

    contender: str
    rate: float
    document: Mapping[str, Any] | None = None
    failure: str = ""

    @property
    def kept_up(self) -> bool:
        if self.document is None:
            return False
        frames, median = self.document["frames"], self.document["latency_ms"]["p50"]
        return median is not None and median < KEPT_UP_MS and frames["lost"] <= KEPT_UP_LOST * frames["expected"]


def markdown(steps: Sequence[Step]) -> str:
    """Orders by rate, and for each rate by the order in which the contenders ran."""
    rows = [HEADS, tuple("---" if at == 1 else "---:" for at in range(len(HEADS)))]
    for rate in sorted({step.rate for step in steps}):
        rows += [_row(step) for step in steps if step.rate == rate]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(step: Step) -> tuple[str, ...]:
    head = f"{step.rate:,.0f}", step.contender
    if step.document is None:
        return (*head, *("–",) * 6)
    frames, latency = step.document["frames"], step.document["latency_ms"]
    costs = step.document["cpu"].get("us_per_frame", {})
    return (
        *head,
        f"{step.document['per_second']['offered']:,.0f}",
        _lost(frames["lost"], frames["expected"]),
        _number(latency["p50"]),
        _number(latency["p99"]),
        _number(costs.get("total")),
        _number(costs.get("broker")),
    )


def _lost(lost: int, expected: int) -> str:
    """
    >>> _lost(0, 1000), _lost(1, 100000), _lost(123, 1000)
    ('0', '0.001 %', '12.3 %')
    """
    return f"{100 * lost / expected:.3g} %" if lost else "0"


def _number(value: float | None) -> str:
    """
    >>> _number(None), _number(4.321), _number(43.21), _number(4321.0)
    ('–', '4.3', '43', '4,321')
    """
    if value is None:
        return "–"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"

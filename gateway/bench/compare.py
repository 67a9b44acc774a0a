"""A run beside an earlier one, as ratios: on a machine that others use too, ratios hold where numbers do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.bench.workload import WorkError

SAME_WORK = ("origin", "target", "request", "rate", "size", "sign", "sessions", "fan_out")
_RATIOS = (
    *(("latency_ms", name) for name in ("p50", "p90", "p99", "p99_9", "max")),
    ("per_second", "achieved"),
)


def read(path: Path) -> dict[str, Any]:
    """The document of an earlier run. Raises WorkError."""
    try:
        saved = json.loads(path.read_text())
    except ValueError:
        saved = None
    if not isinstance(saved, dict) or not {"work", "latency_ms", "per_second", "cpu", "frames"} <= saved.keys():
        raise WorkError(f"--compare {path}: not what `bench --output json` or `--save` writes")
    return saved


def compared(now: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Compares two runs. `differs` lists what was asked for otherwise; such runs say little about each other."""
    return {
        "at": last.get("at"),
        "differs": list(_differences(now["work"], last["work"])),
        "ratios": dict(_ratios(now, last)),
        "lost": {"last": last["frames"]["lost"], "now": now["frames"]["lost"]},
        "curve": last.get("curve", []),
    }


def _differences(now: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[str]:
    for name in SAME_WORK:
        if now.get(name) != last.get(name):
            yield f"{name} {last.get(name)} → {now.get(name)}"


def _ratios(now: Mapping[str, Any], last: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for section, name in _RATIOS:
        yield from _ratio(name, now[section].get(name), last[section].get(name))
    costs, before = (run["cpu"].get("us_per_frame", {}) for run in (now, last))
    for part in costs:
        yield from _ratio(f"cpu {part}", costs[part], before.get(part))


def _ratio(name: str, now: float | None, last: float | None) -> Iterator[tuple[str, float]]:
    """Returns None where one of the two is missing, or there is nothing to divide by."""
    if now is not None and last:
        yield name, round(now / last, 3)


def lines(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines that say how this run compares with an earlier one.

    >>> list(lines({"at": "then", "ratios": {"p50": 0.5}, "differs": [], "lost": {"last": 0, "now": 3}}))
    ['then   p50 ×0.50   lost 0 → 3']
    """
    ratios = "   ".join(f"{name.replace('_', '.')} ×{ratio:.2f}" for name, ratio in comparison["ratios"].items())
    lost = comparison["lost"]
    yield f"{comparison['at']}   {ratios}   lost {lost['last']:,} → {lost['now']:,}"
    if comparison["differs"]:
        yield f"other work: {', '.join(comparison['differs'])}"

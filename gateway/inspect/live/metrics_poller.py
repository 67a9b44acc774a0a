"""Looks at the parts' metrics, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gateway.core.errors import SetupError
from gateway.inspect.live.exposition import MetricSample, read_samples
from gateway.inspect.live.flow import MetricsSnapshot, Samples, flow, samples_of
from gateway.inspect.live.mesh_parts import MeshPart

SamplesSource = Callable[[], Iterable[MetricSample]]
"""Returns what a part's metrics say now. Raises SetupError."""


def samples_source(part: MeshPart) -> SamplesSource:
    return lambda: read_samples(part.text("/metrics"))


class MetricsPoller:
    """Looks at the metrics of all parts, by the part's name.

    A part that does not answer is missing from one look, and may be in the next.
    """

    def __init__(self, source: Mapping[str, SamplesSource]) -> None:
        self._source = dict(source)
        self._last: MetricsSnapshot | None = None
        self._route: dict[str, float | None] | None = None

    def look(self) -> dict[str, Any]:
        """Returns what has flowed since the look before (see `flow`). All parts are asked at once: one may be slow."""
        with ThreadPoolExecutor(max_workers=len(self._source) or 1) as asking:
            answers = dict(zip(self._source, asking.map(_ask, self._source.values()), strict=True))
        parts = {name: None if isinstance(answer, str) else answer for name, answer in answers.items()}
        now = MetricsSnapshot(
            time.time(), parts, {name: answer for name, answer in answers.items() if isinstance(answer, str)}
        )
        last, self._last = self._last, now
        flowing = flow(last, now)
        self._remember_route(flowing["latency"])
        return flowing

    def _remember_route(self, latency: dict[str, Any]) -> None:
        """The router's way is measured a few times a minute: between two looks, the last of them holds."""
        if latency["route"]["p50_seconds"] is not None:
            self._route = latency["route"]
        elif self._route is not None:
            latency["route"] = self._route


def _ask(source: SamplesSource) -> Samples | str:
    """Returns what the part said, or why it said nothing."""
    try:
        return samples_of(source())
    except (SetupError, ValueError) as silent:
        return str(silent)

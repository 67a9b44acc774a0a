"""Reads what Spark reports of a committed batch, with a listener that passes it on."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

log = logging.getLogger(__name__)

_NO_WATERMARK_YEAR = 1970


@dataclass(frozen=True, slots=True)
class Progress:
    """One committed batch of one lane. A batch that was not committed has no progress."""

    lane: str
    batch: int
    phase_seconds: Mapping[str, float]
    dropped_by_watermark: int
    state_rows: int | None
    state_bytes: int
    watermark_seconds: float | None

    @classmethod
    def read(cls, report: Mapping[str, Any]) -> Progress:
        """Reads the progress from the JSON of a StreamingQueryProgress."""
        states = report.get("stateOperators") or []
        return cls(
            lane=report["name"] or "",
            batch=report["batchId"],
            phase_seconds={_snake(phase): ms / 1000 for phase, ms in report["durationMs"].items()},
            dropped_by_watermark=sum(state["numRowsDroppedByWatermark"] for state in states),
            state_rows=_state_rows(states),
            state_bytes=sum(state["memoryUsedBytes"] for state in states),
            watermark_seconds=_watermark(report.get("eventTime", {}).get("watermark")),
        )


def _state_rows(states: Sequence[Mapping[str, Any]]) -> int | None:
    """The store does not track its rows (that would cost a read per put), but where Spark evicts it walks over all of
    them. Where it does not, it does not know."""
    tracked = sum(state["numRowsTotal"] for state in states)
    walked = sum(state.get("customMetrics", {}).get("numRowsReadDuringEviction", 0) for state in states)
    return tracked or walked - sum(state["numRowsRemoved"] for state in states) or None


def _watermark(text: str | None) -> float | None:
    """Returns None before the first watermark: Spark says the epoch then."""
    moment = datetime.fromisoformat(text) if text else None
    return moment.timestamp() if moment and moment.year > _NO_WATERMARK_YEAR else None


def _snake(name: str) -> str:
    """
    >>> _snake("queryPlanning")
    'query_planning'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class ProgressListener(StreamingQueryListener):
    """Passes on progress, and that some query has ended.

    Spark calls it on a thread of its own; no fault here may reach the query.
    """

    def __init__(self, on_progress: Callable[[Progress], None], ended: Callable[[], None]) -> None:
        self._on_progress = on_progress
        self._ended = ended

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - pyspark's name
        try:
            self._on_progress(Progress.read(json.loads(event.progress.json)))
        except Exception:
            log.exception("a batch's progress could not be read")

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - pyspark's name
        """Ignores the event: the lane itself says so."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - pyspark's name
        """Ignores the event: nothing new is no progress."""

    def onQueryTerminated(self, _: QueryTerminatedEvent) -> None:  # noqa: N802 - pyspark's name
        self._ended()

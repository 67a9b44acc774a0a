"""Writes a worker's spans of traced events: the one pass, from a record's beginning to the frame's outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.event import Event
from gateway.core.reasons import Rejected
from gateway.core.trace_context import TRACEPARENT, RecordTraces, Sampling, TraceContext, brought_by
from gateway.observability.spans import Attributes, Spans, SpanStep, spans_of
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import RawFrame

if TYPE_CHECKING:
    from streaming_jobs.routing.frame_context import FrameContext


class RouterTraces:
    def __init__(self, sampling: Sampling, spans: Spans) -> None:
        self._sampling = sampling
        self._spans = spans

    @classmethod
    def of(cls, config: Config) -> RouterTraces | None:
        """Returns the traces as configured; None if nothing is traced. Raises SetupError."""
        settings, spans = config.telemetry.traces, spans_of(config, "router", f"worker-{os.getpid()}")
        return cls(Sampling(config.mesh, settings.share), spans) if settings is not None and spans is not None else None

    def of_record(self, frames: Sequence[RawFrame], partition: int, offset: int) -> RecordSpans | None:
        """Returns the spans of a record; None for a record without frames."""
        if not frames:
            return None
        return RecordSpans(self._sampling.of_record(partition, offset, frames[0].received_at), self._spans)


class RecordSpans:
    """Collects the spans of one record on its way through the row functions."""

    def __init__(self, traces: RecordTraces, spans: Spans) -> None:
        self._traces = traces
        self._spans = spans
        self._began = now_us()
        self._parent: TraceContext | None = None

    def begin(self, work: FrameContext, judged: Event | Rejected | None) -> Event | Rejected | None:
        """Returns the event with the context that its followers go on from."""
        if work.raw.source.protocol == MESH:
            return judged
        brought = brought_by(judged) if isinstance(judged, Event) else None
        parent = brought or self._traces.of(work.position.index)
        if parent is None:
            return judged
        context = parent.step(SpanStep.ROUTE) if parent.sampled else parent
        if parent.sampled:
            self._parent, work.trace = parent, context
        if not isinstance(judged, Event):
            return judged
        return replace(judged, headers={**judged.headers, TRACEPARENT: str(context)})

    def end(self, work: FrameContext, judged: Event | Rejected | None) -> None:
        """Ends the span of a traced frame."""
        if work.trace is not None:
            failed = work.refused.value if work.refused is not None else ""
            attributes = _of_frame(work, judged)
            self._spans.add(SpanStep.ROUTE, work.trace, self._parent, self._began, now_us(), attributes, failed)


def _of_frame(work: FrameContext, judged: Event | Rejected | None) -> Attributes:
    source = work.raw.source
    attributes: dict[str, str | int] = {
        "meshgate.event_id": work.event_id,
        "meshgate.protocol": source.protocol,
        "meshgate.listener": source.listener,
        "meshgate.received_at": work.raw.received_at,
        "meshgate.records": work.parts.total(),
    }
    if isinstance(judged, Event):
        attributes |= {
            "meshgate.subject": judged.subject,
            "meshgate.node": judged.node,
            "meshgate.auth": judged.auth.value,
        }
    return attributes

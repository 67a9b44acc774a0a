"""Writes the edge's spans of traced events: their receipt, and the outcome of each delivery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.ids import event_id
from gateway.core.trace_context import Sampling, parse
from gateway.observability.spans import Attributes, Spans, SpanStep, spans_of
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import FrameSource

Received = Sequence[tuple[FrameSource, int]]
"""The source and the time of receipt, in microseconds, of each frame of a record."""


class Traced(Protocol):
    """A delivery, as far as its span tells of it. `trace`: the context it follows from. `handed_at`: when this edge
    began with it, in microseconds."""

    trace: str
    handed_at: int
    event_id: str
    subject: str
    protocol: str


class EdgeTraces:
    def __init__(self, edge: str, sampling: Sampling, spans: Spans) -> None:
        self._edge = edge
        self._sampling = sampling
        self._spans = spans
        self.stop: Callable[[], None] = spans.stop

    @classmethod
    def of(cls, config: Config) -> EdgeTraces | None:
        """Returns the traces as configured; None if nothing is traced. Raises SetupError."""
        settings, spans = config.telemetry.traces, spans_of(config, "edge", config.edge.id)
        if settings is None or spans is None:
            return None
        return cls(config.edge.id, Sampling(config.mesh, settings.share), spans)

    def logged(self, received: Received, partition: int, offset: int) -> None:
        """Writes the spans of a logged record: its position names its frames."""
        now = now_us()
        record = self._sampling.of_record(partition, offset, received[0][1])
        for index, context in record.among(len(received)):
            source, at = received[index]
            if source.protocol != MESH:
                self._spans.add(
                    SpanStep.RECEIVE, context, None, at, now, self._of_frame(source, partition, offset, index)
                )

    def _of_frame(self, source: FrameSource, partition: int, offset: int, index: int) -> Attributes:
        named = {"meshgate.event_id": event_id(partition, offset, index), "meshgate.edge": self._edge}
        named |= {"meshgate.protocol": source.protocol, "meshgate.listener": source.listener}
        return named | ({"meshgate.session": source.session_id} if source.session else {})

    def delivered(self, delivery: Traced, destination: str, at: int, outcome: str, failed: str) -> None:
        parent = parse(delivery.trace)
        if parent is None:
            return
        said = {
            "meshgate.event_id": delivery.event_id,
            "meshgate.subject": delivery.subject,
            "meshgate.protocol": delivery.protocol,
            "meshgate.edge": self._edge,
            "meshgate.destination": destination,
            "meshgate.outcome": outcome,
        }
        context = parent.step(f"{SpanStep.DELIVER}/{destination}")
        self._spans.add(SpanStep.DELIVER, context, parent, delivery.handed_at, at, said, failed)

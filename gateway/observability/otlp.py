"""Spans by OTLP over HTTP, in batches, from a thread of their own: the one module that knows OpenTelemetry.

No tracer of the SDK's makes them. Ours have ids that follow from the event, begin and end in different processes and
long before they are told of, and know no "current" span; so they are handed over complete.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gateway import __version__
from gateway.core.trace_context import TraceContext
from gateway.observability.spans import Attributes, SpanStep

log = logging.getLogger(__name__)

QUEUED_SPANS = 8_192
"""Some 10 MB. Beyond it the oldest are dropped: a collector that is away costs spans and nothing else."""
DELAY_SECONDS = 1.0
"""A worker of the router may be gone at any time, with what it has not told yet."""
TIMEOUT_SECONDS = 10.0
STOP_SECONDS = 3.0
TELL_SECONDS = 60.0
"""One line about a collector that does not answer in so many seconds."""

_KINDS = {SpanStep.RECEIVE: SpanKind.CONSUMER, SpanStep.ROUTE: SpanKind.INTERNAL, SpanStep.DELIVER: SpanKind.PRODUCER}
_SCOPE = InstrumentationScope("meshgate", __version__)
_FLAGS = TraceFlags(TraceFlags.SAMPLED)


class OtlpSpans:
    def __init__(self, endpoint: str, mesh: str, service: str, instance: str) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # the exporter tells it below, less often
        named = {"service.name": f"meshgate-{service}", "service.namespace": mesh, "service.version": __version__}
        self._resource = Resource.create({**named, "service.instance.id": instance})
        exporter = _Telling(OTLPSpanExporter(endpoint=endpoint, timeout=TIMEOUT_SECONDS), endpoint)
        self._processor = BatchSpanProcessor(
            exporter, max_queue_size=QUEUED_SPANS, schedule_delay_millis=DELAY_SECONDS * 1000
        )

    def add(
        self,
        step: SpanStep,
        context: TraceContext,
        parent: TraceContext | None,
        start: int,
        end: int,
        attributes: Attributes,
        failed: str = "",
    ) -> None:
        span = ReadableSpan(
            step.value,
            _context(context),
            None if parent is None else _context(parent),
            self._resource,
            attributes,
            kind=_KINDS[step],
            status=Status(StatusCode.ERROR, failed) if failed else Status(),
            start_time=start * 1000,
            end_time=max(start, end) * 1000,
            instrumentation_scope=_SCOPE,
        )
        self._processor.on_end(span)

    def stop(self) -> None:
        """Stops sending soon. The processor itself would wait half a minute for a collector that is away."""
        telling = threading.Thread(target=self._processor.shutdown, name="last spans", daemon=True)
        telling.start()
        telling.join(STOP_SECONDS)


class _Telling(SpanExporter):
    def __init__(self, inner: SpanExporter, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = endpoint
        self._told_at = -TELL_SECONDS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is not SpanExportResult.SUCCESS and time.monotonic() - self._told_at >= TELL_SECONDS:
            self._told_at = time.monotonic()
            log.warning("telemetry.traces: %s takes no spans; they are dropped", self._endpoint)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


def _context(context: TraceContext) -> SpanContext:
    return SpanContext(context.trace_id, context.span_id, is_remote=False, trace_flags=_FLAGS)

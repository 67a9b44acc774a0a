"""Sends spans to where they are collected.

OpenTelemetry is never imported without `telemetry.traces`: nothing in this module knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.trace_context import TraceContext

Attributes = Mapping[str, str | int]


class SpanStep(StrEnum):
    """The steps of an event's way, a span each.

    `receive`: at an edge, until the raw log has it. `route`: the router's one pass. `deliver`: at an edge, from the
    router's record to its outcome, one for each receiver.
    """

    RECEIVE = "receive"
    ROUTE = "route"
    DELIVER = "deliver"


class Spans(Protocol):
    """Takes spans without waiting for anybody; what nobody can be told in time is dropped."""

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
        """Adds a span. Times are in microseconds. `failed` says why it is the end of an event's way."""

    def stop(self) -> None:
        """Tells what it has, for a moment."""


def spans_of(config: Config, service: str, instance: str) -> Spans | None:
    """Returns the spans as configured; None if nothing is traced. Raises SetupError."""
    settings = config.telemetry.traces
    return None if settings is None else _otlp_spans()(settings.endpoint, config.mesh, service, instance)


def check_spans(config: Config) -> None:
    """Checks that configured spans can be had, before a worker needs them. Raises SetupError."""
    if config.telemetry.traces is not None:
        _otlp_spans()


def _otlp_spans() -> Callable[[str, str, str, str], Spans]:
    try:
        from gateway.observability.otlp import OtlpSpans
    except ImportError:
        raise SetupError("telemetry.traces needs OpenTelemetry: pip install '.[otel]' in the repository") from None
    return OtlpSpans

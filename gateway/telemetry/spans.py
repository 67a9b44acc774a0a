"""Where spans go. What is here knows nothing of OpenTelemetry: without `telemetry.traces` it is never imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from gateway.config import Config
from gateway.errors import SetupError
from gateway.trace_context import TraceContext

Attributes = Mapping[str, str | int]


class Step(StrEnum):
    """Of an event's way: a span each. `receive`: at an edge, until the raw log has it. `route`: the router's one pass.
    `deliver`: at an edge, from the router's record to what became of it, one for each receiver."""

    RECEIVE = "receive"
    ROUTE = "route"
    DELIVER = "deliver"


class Spans(Protocol):
    """Takes spans without waiting for anybody; what nobody can be told in time is dropped."""

    def add(
        self, step: Step, context: TraceContext, parent: TraceContext | None, start: int, end: int,
        attributes: Attributes, failed: str = "",
    ) -> None:  # fmt: skip
        """Times in microseconds. `failed`: why it is the end of an event's way."""

    def stop(self) -> None:
        """Tells what it has, for a moment."""


def spans_of(config: Config, service: str, instance: str) -> Spans | None:
    """As it is configured; None where nothing is traced. Raises SetupError."""
    settings = config.telemetry.traces
    return None if settings is None else _otlp_spans()(settings.endpoint, config.mesh, service, instance)


def check_spans(config: Config) -> None:
    """That they can be had if they are configured, before a worker wants them. Raises SetupError."""
    if config.telemetry.traces is not None:
        _otlp_spans()


def _otlp_spans() -> Callable[[str, str, str, str], Spans]:
    try:
        from gateway.telemetry.otlp import OtlpSpans
    except ImportError:
        raise SetupError("telemetry.traces needs OpenTelemetry: pip install '.[otel]' in the repository") from None
    return OtlpSpans

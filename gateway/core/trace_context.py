"""Decides which events are traced, and under which ids: W3C trace contexts that every part derives for itself.

A trace id follows from where the frame stands in the raw log: its record (partition, offset, and the time of its first
frame, so that topics that were made anew begin new traces) and its index there. A span id follows from its trace and
the step it stands for. So edge and router name the same event alike without a word between them, and what is repeated
after a crash is repeated under the same ids. The decision is by the lower half of the trace id, as OpenTelemetry's
ratio sampler makes it.

An event that brings a `traceparent` of its own stays in that trace, and its flag is the decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from gateway.core.event import Event

TRACEPARENT = "traceparent"
"""The header of an event, and the parameter of a content type."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = 0x01
_HALF = 1 << 64
_STRIDE = 0x9E3779B97F4A7C15
"""The golden ratio of 2**64: the frames of a record spread evenly over all there is to decide by."""


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The place of one span: its trace, and its id."""

    trace_id: int
    span_id: int
    sampled: bool = True

    def __str__(self) -> str:
        """
        >>> str(TraceContext(1, 2))
        '00-00000000000000000000000000000001-0000000000000002-01'
        """
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"

    def step(self, name: str) -> TraceContext:
        """Returns the context that follows this one."""
        named = name.encode() + self.span_id.to_bytes(8)
        return TraceContext(self.trace_id, _digest(self.trace_id.to_bytes(16) + named), self.sampled)


def parse(text: str) -> TraceContext | None:
    """Returns the trace context in this text; None if there is none.

    >>> parse("00-00000000000000000000000000000001-0000000000000002-01")
    TraceContext(trace_id=1, span_id=2, sampled=True)
    """
    match = _PARENT.fullmatch(text)
    if match is None or (text.startswith("00") and match[4]):  # later versions may say more; the first says no more
        return None
    trace_id, span_id = int(match[1], 16), int(match[2], 16)
    return TraceContext(trace_id, span_id, bool(int(match[3], 16) & _SAMPLED)) if trace_id and span_id else None


def brought_by(event: Event) -> TraceContext | None:
    """Returns the event's own trace context: from a link in a header, from any peer as a content type's parameter."""
    if parent := event.headers.get(TRACEPARENT):
        return parse(parent)
    if TRACEPARENT not in event.content_type:
        return None
    parts = (part.strip().partition("=") for part in event.content_type.split(";"))
    return next((parse(value) for name, _, value in parts if name == TRACEPARENT), None)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Samples a `share` of all frames, from 0 to 1."""

    mesh: str
    share: float

    def of_record(self, partition: int, offset: int, first_at: int) -> RecordTraces:
        """Returns the traces of a record. `first_at` is when its first frame was received."""
        named = f"{self.mesh}/{partition}-{offset}/{first_at}".encode()
        digest = blake2b(named, digest_size=16).digest()
        upper, lower = int.from_bytes(digest[:8]) or 1, int.from_bytes(digest[8:])
        return RecordTraces(upper, lower, round(self.share * _HALF))


@dataclass(frozen=True, slots=True)
class RecordTraces:
    """The traces of one record's frames: one for each frame, which begins with its receipt."""

    upper: int
    lower: int
    below: int

    def of(self, index: int) -> TraceContext | None:
        """Returns the trace of a frame; None for a frame that is not traced."""
        lower = (self.lower + index * _STRIDE) % _HALF
        if lower >= self.below:
            return None
        trace_id = self.upper * _HALF + lower
        return TraceContext(trace_id, _digest(trace_id.to_bytes(16)))

    def among(self, count: int) -> Iterator[tuple[int, TraceContext]]:
        """Yields the traced frames of the first `count`, by their indexes."""
        for index in range(count):
            if (context := self.of(index)) is not None:
                yield index, context


def _digest(named: bytes) -> int:
    """Returns the id of a span: never 0, which names none."""
    return int.from_bytes(blake2b(named, digest_size=8).digest()) or 1

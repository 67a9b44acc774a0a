"""Chooses the range of the raw log to look at: a cut through it, fixed before anything is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.config import Config
from gateway.config.topics import TOPICS, TopicName
from gateway.core.event import SECOND_US
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History

COMPARED: tuple[TopicName, ...] = tuple(
    name for name, topic in TOPICS.items() if (topic.retention_hours or 0) >= (TOPICS["raw"].retention_hours or 0)
)
"""What must be there together, or nothing could be compared. (Of egress a day is kept; outcomes stand in for it.)"""
RETENTION_MARGIN_SECONDS = 3_600
"""Topics lose their oldest segments one by one: near that end one may have a record of which another has none."""
THINNED_SHARE = 0.1
"""A topic that has reached its bound in bytes loses its oldest segments while it is read: so much of the time that it
still covers is left alone."""
OUTPUT_LEAD_SECONDS = 60
"""Clocks of edge and router may differ: outputs are looked for from so much before the stretch on."""


@dataclass(frozen=True)
class LogRange:
    """The range of the raw log that is looked at. Times are in microseconds; `start` is None for everything.

    `bounds` are all that the raw log still has. `spans` are what is looked at.
    """

    start: int | None
    end: int
    bounds: dict[int, Span]
    spans: dict[int, Span]

    @property
    def standing_before(self) -> int | None:
        """The time whose interests the judges begin with; None where the log itself begins with none."""
        if all(self.spans[number].start == 0 for number in self.spans):
            return None
        return self.start if self.start is not None else 0

    @property
    def outputs_from(self) -> int | None:
        return None if self.start is None else self.start - OUTPUT_LEAD_SECONDS * SECOND_US

    def covers(self, partition: int, offset: int) -> bool:
        span = self.spans.get(partition)
        return span is not None and span.start <= offset < span.end


def choose_stretch(history: History, config: Config, start: int | None, end: int | None, now: int) -> LogRange:
    """Chooses everything that was logged before now, unless times are given.

    It never chooses what some topic may no longer have.
    """
    bounds = history.bounds("raw")
    start = max((at for at in (start, *_oldest_compared(history, config, bounds, now)) if at is not None), default=None)
    spans = history.between("raw", start, end)
    cut = {
        number: Span(min(span.start, bounds[number].end), min(span.end, bounds[number].end))
        for number, span in spans.items()
    }
    return LogRange(start, min(end, now) if end is not None else now, bounds, cut)


def _oldest_compared(history: History, config: Config, bounds: dict[int, Span], now: int) -> Iterator[int]:
    """Returns the times before which something may be missing."""
    kept_us = min(int(config.kafka.topic(name).settings["retention.ms"]) for name in COMPARED) * 1_000
    oldest = now - kept_us + RETENTION_MARGIN_SECONDS * SECOND_US
    if any(at < oldest for at in first_times(history, bounds).values()):
        yield oldest
    for name in COMPARED:
        if "retention.bytes" in config.kafka.topic(name).settings:
            yield from whole_from(history, name, now)


def whole_from(history: History, name: TopicName, now: int) -> list[int]:
    """Returns for each partition that has lost its beginning the time from which it has everything, and will for a
    while."""
    shortened = {number: span for number, span in history.bounds(name).items() if span.start > 0}
    first = first_times(history, shortened, name)
    return [at + max(OUTPUT_LEAD_SECONDS * SECOND_US, int((now - at) * THINNED_SHARE)) for at in first.values()]


def first_times(history: History, bounds: dict[int, Span], name: TopicName = "raw") -> dict[int, int]:
    """Returns for each partition when the first record was logged that it still has."""
    times = {}
    for number, span in bounds.items():
        if span.size and (record := history.record(name, number, span.start)) is not None:
            times[number] = record.logged_at
    return times

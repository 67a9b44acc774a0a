"""Reads the mesh's topics with one consumer that belongs to no group: nobody notices, and nothing is moved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from kafka import KafkaConsumer, TopicPartition

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.core.errors import SetupError
from gateway.inspect.history.span import Span
from gateway.kafka.records import TopicRecord, open_consumer, record_of

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 30.0
"""A broker that gives nothing for so long, of what it says it has, will not give it."""
POLL_MILLISECONDS = 500
RECORDS_PER_POLL = 2_000
PARTITION_FETCH_BYTES = 4 * 1024 * 1024
"""Fetched of one partition at a time: a long range in few round trips."""

Spans = Mapping[int, Span]
"""Spans by partition."""


class History:
    """Reads the topics as they are. There is one scan at a time, because all scans share a consumer.

    Raises SetupError where Kafka does not answer, or has no such topic.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._servers = config.kafka.bootstrap_servers
        self._consumer = open_consumer(
            config,
            max_poll_records=RECORDS_PER_POLL,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
            bootstrap_timeout_ms=int(CONNECT_SECONDS * 1000),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    # -- where ---------------------------------------------------------------------------------------------------

    def bounds(self, name: TopicName) -> dict[int, Span]:
        """Returns the spans of everything that the topic still has."""
        partitions = self._partitions(name)
        starts = self._consumer.beginning_offsets(partitions)
        ends = self._consumer.end_offsets(partitions)
        return {partition.partition: Span(starts[partition], ends[partition]) for partition in partitions}

    def between(self, name: TopicName, from_us: int | None, to_us: int | None) -> dict[int, Span]:
        """Returns the spans of records written in this time, by Kafka's index; None is no bound."""
        bounds = self.bounds(name)
        starts = {} if from_us is None else self._since(name, from_us)
        ends = {} if to_us is None else self._since(name, to_us)
        return {
            number: Span(starts.get(number, span.start if from_us is None else span.end), ends.get(number, span.end))
            for number, span in bounds.items()
        }

    def _since(self, name: TopicName, at_us: int) -> dict[int, int]:
        """Returns the first offset of that time or later; no entry where there is none."""
        offsets = self._consumer.offsets_for_times(dict.fromkeys(self._partitions(name), max(at_us // 1000, 0)))
        return {partition.partition: place.offset for partition, place in offsets.items() if place is not None}

    def _partitions(self, name: TopicName) -> list[TopicPartition]:
        topic = self._config.topic(name)
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise SetupError(f"there is no topic {topic} at {self._servers}: has this mesh run yet?")
        return [TopicPartition(topic, number) for number in sorted(numbers)]

    # -- what ----------------------------------------------------------------------------------------------------

    def record(self, name: TopicName, partition: int, offset: int) -> TopicRecord | None:
        """Returns the record at a position; None if the topic no longer has it, or not yet."""
        if partition not in (bounds := self.bounds(name)):
            return None
        span = bounds[partition]
        if not span.start <= offset < span.end:
            return None
        return next(iter(self.read(name, {partition: Span(offset, offset + 1)})), None)

    def read(self, name: TopicName, spans: Spans) -> Scan:
        return Scan(self._consumer, self._config.topic(name), spans)

    def newest_first(self, name: TopicName, spans: Spans, *, step: int = 2_000) -> Iterator[TopicRecord]:
        """Yields records from the end on, in order of time, a stretch of each partition after the other."""
        remaining = dict(spans)
        waiting: list[TopicRecord] = []
        while any(span.size for span in remaining.values()):
            stretch = {number: span.last(step) for number, span in remaining.items()}
            remaining = {number: span.before(stretch[number]) for number, span in remaining.items()}
            waiting += self.read(name, stretch)
            oldest = _oldest(waiting, {number for number, span in remaining.items() if span.size})
            yield from sorted((record for record in waiting if record.logged_at >= oldest), key=_time, reverse=True)
            waiting = [record for record in waiting if record.logged_at < oldest]


def _oldest(records: list[TopicRecord], unfinished: set[int]) -> int:
    """Returns the time from which nothing is missing: no unfinished partition has been read so far back."""
    first: dict[int, int] = {}
    for record in records:
        if record.partition in unfinished:
            first[record.partition] = min(record.logged_at, first.get(record.partition, record.logged_at))
    return max(first.values(), default=0)


def _time(record: TopicRecord) -> tuple[int, int]:
    """Within a partition the offset decides between what was written in one millisecond."""
    return record.logged_at, record.offset


class Scan:
    """Records of some spans, in each partition's order. `leave` gives up the rest of a partition."""

    def __init__(self, consumer: KafkaConsumer, topic: str, spans: Spans) -> None:
        self._consumer = consumer
        self._remaining = {TopicPartition(topic, number): span for number, span in spans.items() if span.size}

    def leave(self, partition: int) -> None:
        for assigned in [left_partition for left_partition in self._remaining if left_partition.partition == partition]:
            self._end_partition(assigned)

    def __iter__(self) -> Iterator[TopicRecord]:
        consumer = self._consumer
        consumer.assign(list(self._remaining))
        consumer.resume(*self._remaining)  # an earlier scan may have left one of them paused, and assigning keeps that
        for left_partition, span in self._remaining.items():
            consumer.seek(left_partition, span.start)
        heard_at = time.monotonic()
        while self._remaining:
            polled = consumer.poll(timeout_ms=POLL_MILLISECONDS)
            for partition, records in polled.items():
                yield from self._of(partition, records)
            self._leave_what_is_read()
            heard_at = time.monotonic() if polled else heard_at
            if time.monotonic() - heard_at > SILENCE_SECONDS:
                raise SetupError(f"Kafka has sent nothing of {self._names()} in {SILENCE_SECONDS:.0f} s")

    def _of(self, partition: TopicPartition, records: list[Any]) -> Iterator[TopicRecord]:
        for polled in records:
            if partition not in self._remaining:
                return
            record = record_of(polled)
            if record.offset >= self._remaining[partition].end:
                self._end_partition(partition)
                return
            yield record

    def _leave_what_is_read(self) -> None:
        """Leaves partitions by position, not by record: compaction and transactions leave offsets without one."""
        for partition in [
            left_partition
            for left_partition, span in self._remaining.items()
            if self._consumer.position(left_partition) >= span.end
        ]:
            self._end_partition(partition)

    def _end_partition(self, partition: TopicPartition) -> None:
        del self._remaining[partition]
        self._consumer.pause(partition)

    def _names(self) -> str:
        return ", ".join(f"{left_partition.topic}[{left_partition.partition}]" for left_partition in self._remaining)

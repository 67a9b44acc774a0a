"""A light tap: looks at the ends of topics now and then, at no more than so many records, and skips what lies between.

So what it costs the broker, the network and the process that looks does not grow with what passes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.core.errors import SetupError
from gateway.kafka.records import TopicRecord, open_consumer, record_of

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

RECORDS_PER_LOOK = 200
"""The most records of a topic, over its partitions."""
PACKED_RECORDS_PER_LOOK = 10
"""The most records if a record holds hundreds of frames."""
PACKED: frozenset[TopicName] = frozenset({"raw", "egress"})
RECORDS_BEFORE = 25
"""The last records of each partition, so that there is something to see at once."""
FETCH_BYTES = 64 * 1024
"""Fetched of a partition at a time."""
LOOK_SECONDS = 1.0
"""The longest that a look waits for what the broker says it has."""
POLL_MILLISECONDS = 100
BOOTSTRAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The records that one look brought. `skipped` counts the records that passed unread."""

    records: Mapping[TopicName, list[TopicRecord]] = field(default_factory=dict)
    skipped: Mapping[TopicName, int] = field(default_factory=dict)


@contextmanager
def consumer_of(config: Config, **settings: Any) -> Iterator[KafkaConsumer]:
    """Raises SetupError where Kafka does not answer, or no longer does."""
    from kafka.errors import KafkaError

    consumer = open_consumer(
        config,
        bootstrap_timeout_ms=int(BOOTSTRAP_SECONDS * 1000),
        **{"max_partition_fetch_bytes": FETCH_BYTES, **settings},
    )
    with closing(consumer):
        try:
            yield consumer
        except KafkaError as failed:
            raise SetupError(f"kafka.bootstrap {config.kafka.bootstrap_servers}: {type(failed).__name__}") from None


class TopicSampler:
    """Looks at topics now and then, with a consumer from `consumer_of`.

    The first look at a topic brings the last few records of before.
    """

    def __init__(self, config: Config, consumer: KafkaConsumer) -> None:
        self._config = config
        self._consumer = consumer
        self._names: dict[TopicPartition, TopicName] = {}

    def watch(self, names: frozenset[TopicName]) -> None:
        """Watches these topics from now on. What was watched before goes on where it is."""
        names_of = {partition: name for name in sorted(names) for partition in self._partitions(name)}
        if names_of.keys() == self._names.keys():
            return
        places = {partition: self._consumer.position(partition) for partition in names_of if partition in self._names}
        fresh = [partition for partition in names_of if partition not in places]
        starts = self._shortly_before_the_end(fresh) if fresh else {}
        self._consumer.assign(list(names_of))
        for topic_partition, place in (places | starts).items():
            self._consumer.seek(topic_partition, place)
        self._names = names_of

    def _shortly_before_the_end(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        starts = self._consumer.beginning_offsets(partitions)
        ends = self._consumer.end_offsets(partitions)
        return {partition: max(starts[partition], ends[partition] - RECORDS_BEFORE) for partition in partitions}

    def _partitions(self, name: TopicName) -> list[TopicPartition]:
        from kafka import TopicPartition

        topic = self._config.topic(name)
        return [TopicPartition(topic, number) for number in sorted(self._consumer.partitions_for_topic(topic) or ())]

    def look(self) -> Seen:
        if not self._names:
            return Seen()
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(list(self._names))
        skipped = self._skip(ends)
        records: dict[TopicName, list[TopicRecord]] = {name: [] for name in self._names.values()}
        deadline = time.monotonic() + LOOK_SECONDS
        while (
            any(self._consumer.position(partition) < end for partition, end in ends.items())
            and time.monotonic() < deadline
        ):
            for partition, polled in self._consumer.poll(timeout_ms=POLL_MILLISECONDS).items():
                records[self._names[partition]] += [record_of(raw_record) for raw_record in polled]
        return Seen(records, skipped)

    def _skip(self, ends: Mapping[TopicPartition, int]) -> dict[TopicName, int]:
        counts: dict[TopicName, int] = {}
        for partition, end in ends.items():
            name = self._names[partition]
            is_packed = name in PACKED or (name == "events" and self._config.events.format == "batch")
            whole = PACKED_RECORDS_PER_LOOK if is_packed else RECORDS_PER_LOOK
            most = max(whole // sum(other == name for other in self._names.values()), 1)
            passed = end - most - self._consumer.position(partition)
            if passed > 0:
                self._consumer.seek(partition, end - most)
                counts[name] = counts.get(name, 0) + passed
        return counts

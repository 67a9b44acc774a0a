"""Reads the compacted topic `interests`: from its start to its end, and on from there.

    connect ──► start ──► catch_up / read_to_end ──► end ──► poll ──► poll ──► …

Invariants
1. The reader fails only if Kafka gives it nothing for `PROGRESS_SECONDS`. A long topic takes longer, and never fails.
2. Nothing is lost between calls: what a call took beyond the end it began with is part of its result, and what a call
   took before it failed is part of the next one's.
3. A topic without partitions is an error: it would pass for a mesh in which nobody wants anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.interests.records import apply_record
from gateway.interests.table import InterestTable

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

PROGRESS_SECONDS = 30.0
"""A broker that gives nothing for so long, of what it says it has, will not give it."""
POLL_MILLISECONDS = 500
RECORDS_PER_POLL = 10_000
FETCH_BYTES = 8 * 2**20
"""Fetched of a partition at a time, so that a long topic takes few round trips."""

InterestRecord = tuple[bytes, bytes | None]
"""Key and value of a record; no value is the end of what the key names."""
Connect = Callable[[Config], "KafkaConsumer"]


def connect(config: Config) -> KafkaConsumer:
    """Returns a consumer that belongs to no group."""
    from kafka import KafkaConsumer

    return KafkaConsumer(
        **config.kafka.client_settings(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        metrics_enabled=False,
        max_poll_records=RECORDS_PER_POLL,
        max_partition_fetch_bytes=FETCH_BYTES,
    )


class InterestReader:
    """Connects when it is first asked for something."""

    def __init__(
        self, config: Config, connect: Connect = connect, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._topic = config.topic("interests")
        self._connect = connect
        self._monotonic = monotonic
        self._connected: KafkaConsumer | None = None
        self._latest: dict[bytes, bytes | None] = {}

    def catch_up(self, table: InterestTable) -> None:
        """Brings the table to where the topic is now."""
        for key, value in self.read_to_end().items():
            apply_record(table, key, value)

    def read_to_end(self) -> dict[bytes, bytes | None]:
        """Returns the last value of each key, of everything since the last call, to the end that the topic has now.

        Only the last value of a key counts, so a topic that waits to be compacted costs little more than one that was.
        """
        return self._read_to(self._end_offsets())

    def read_until(self, before_us: int) -> dict[bytes, bytes | None]:
        """Returns the last value that each key had at a time, in microseconds. Nothing else can be read afterwards."""
        ends = self._end_offsets()
        later = self._consumer.offsets_for_times(dict.fromkeys(ends, max(before_us // 1000, 0)))
        ends |= {partition: place.offset for partition, place in later.items() if place is not None}
        return self._read_to(ends, is_exact=True)

    def poll(self, timeout_ms: int) -> Iterator[InterestRecord]:
        """Returns the next records; none if none comes in time."""
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            for record in records:
                yield record.key, record.value

    @property
    def is_at_end(self) -> bool:
        return self._has_reached(self._end_offsets())

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _read_to(self, ends: Mapping[TopicPartition, int], *, is_exact: bool = False) -> dict[bytes, bytes | None]:
        heard_at = self._monotonic()
        while not self._has_reached(ends):
            polled = self._consumer.poll(timeout_ms=POLL_MILLISECONDS)
            for partition, records in polled.items():
                for record in records:
                    if not is_exact or record.offset < ends[partition]:
                        self._latest[record.key] = record.value
            if polled:
                heard_at = self._monotonic()
            elif self._monotonic() - heard_at > PROGRESS_SECONDS:
                raise SetupError(f"Kafka has sent nothing of {self._topic} in {PROGRESS_SECONDS:.0f} s")
        latest, self._latest = self._latest, {}
        return latest

    def _end_offsets(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(self._consumer.assignment())
        return ends

    def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Compares positions and not records, because compaction leaves offsets without a record."""
        return all(self._consumer.position(partition) >= end for partition, end in ends.items())

    @property
    def _consumer(self) -> KafkaConsumer:
        if self._connected is None:
            self._connected = self._assigned(self._connect(self._config))
        return self._connected

    def _assigned(self, consumer: KafkaConsumer) -> KafkaConsumer:
        from kafka import TopicPartition

        numbers = consumer.partitions_for_topic(self._topic)
        if not numbers:
            consumer.close()
            servers = self._config.kafka.bootstrap_servers
            raise SetupError(f"there is no topic {self._topic} at {servers}: has this mesh run yet?")
        consumer.assign([TopicPartition(self._topic, number) for number in sorted(numbers)])
        consumer.seek_to_beginning()
        return consumer

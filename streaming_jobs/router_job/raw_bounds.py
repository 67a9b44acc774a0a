"""Tells a router where its raw log begins and ends."""

from __future__ import annotations

import threading
from functools import cached_property

from kafka import KafkaConsumer, TopicPartition

from gateway.config import Config

ASK_MILLISECONDS = 5_000
"""The time for an answer of Kafka's; meanwhile the router looks at nothing else."""


class RawBounds:
    """Knows where the raw log begins and ends, by partition. Raises KafkaError while Kafka is away.

    It connects when it is first asked. Any thread may ask.
    """

    def __init__(self, config: Config) -> None:
        self._lock = threading.Lock()
        self._settings = config.kafka.client_settings()
        raw = config.topic("raw")
        self._partitions = [TopicPartition(raw, number) for number in range(config.kafka.topic("raw").partitions)]

    @cached_property
    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(**self._settings, enable_auto_commit=False)

    def begins(self) -> dict[int, int]:
        with self._lock:
            begins = self._consumer.beginning_offsets(self._partitions, timeout_ms=ASK_MILLISECONDS)
        return {partition.partition: begin for partition, begin in begins.items()}

    def ends(self) -> dict[int, int]:
        with self._lock:
            ends = self._consumer.end_offsets(self._partitions, timeout_ms=ASK_MILLISECONDS)
        return {partition.partition: end for partition, end in ends.items()}

"""Writes what rules find into the raw log, as frames of the mesh."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, RuleEvent
from gateway.records.raw_log.frames import FrameSource
from streaming_jobs.rules.rule_output import partition_of, rule_events

if TYPE_CHECKING:
    from pyspark.sql import Row

RULES = "rules"
SOURCE = FrameSource(MESH, "", RULES, 0)
FLUSH_SECONDS = 30.0
"""Kafka must have a batch's findings within this; else the batch fails, and Spark does it again."""


class FindingsWriter:
    """Writes the findings of rules, for one thread at a time and rule: Spark runs a query's batches one by one."""

    def __init__(self, config: Config) -> None:
        self._topic = config.topic("raw")
        self._partitions = config.kafka.topic("raw").partitions
        self._frames = config.edge.record.frames
        self._producer = KafkaProducer(
            **config.kafka.client_settings(),
            acks="all",
            compression_type="zstd",
            max_request_size=config.kafka.message_bytes,
            metrics_enabled=False,
        )

    def write(self, rule: str, depth: int, batch: int, rows: Iterable[Row]) -> None:
        """Returns when all are durable."""
        outputs = rule_events(rule, depth, batch, (row.asDict() for row in rows))
        partition = partition_of(rule, self._partitions)
        sent = [
            self._producer.send(self._topic, value=finding_record(some), partition=partition)
            for some in self._parts(outputs)
        ]
        for waiting in sent:
            waiting.get(FLUSH_SECONDS)

    def _parts(self, outputs: Iterator[RuleEvent]) -> Iterator[list[RuleEvent]]:
        while some := list(islice(outputs, self._frames)):
            yield some

    def close(self) -> None:
        self._producer.close(FLUSH_SECONDS)


def finding_record(findings: Iterable[RuleEvent]) -> bytes:
    """Returns the raw record of findings."""
    builder = ContainerBuilder(RULES, 0)
    for event in findings:
        builder.add(SOURCE, now_us(), control_frames.encode(event))
    return builder.build()

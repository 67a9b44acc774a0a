"""Requests that an earlier life of this edge has handed to its sessions: those are gone, so nobody will answer.

Who asked would learn it from a timeout. The egress partition still has the requests, with the addresses that answers go
to; which of them have been answered meanwhile is not looked up: an error that nobody waits for any more is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafka import KafkaConsumer, TopicPartition

from gateway import egress
from gateway.config import Config
from gateway.event import Kind
from gateway.raw_log.frames import ReplyAddress
from gateway.reasons import Rejected

LOOK_BACK_SECONDS = 20.0
"""For the reading itself; what is not found in it ends by its timeout."""


def left_open(config: Config, epoch: int) -> list[ReplyAddress]:
    """Who still waits for sessions of epochs before this one. Blocks. Raises KafkaError."""
    partition = TopicPartition(config.topic("egress"), config.edge_ordinal)
    since_ms = (time.time() - config.request_timeout_seconds) * 1000
    consumer = KafkaConsumer(**config.kafka.client_settings(), enable_auto_commit=False)
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found = consumer.offsets_for_times({partition: int(since_ms)})[partition]
        if found is None:
            return []
        consumer.seek(partition, found.offset)
        return list(dict.fromkeys(_read(consumer, partition, end, epoch)))
    finally:
        consumer.close()


def _read(consumer: KafkaConsumer, partition: TopicPartition, end: int, epoch: int) -> Iterator[ReplyAddress]:
    deadline = time.monotonic() + LOOK_BACK_SECONDS
    while consumer.position(partition) < end and time.monotonic() < deadline:
        for record in consumer.poll(timeout_ms=500).get(partition, ()):
            yield from replies_in(record.value, epoch)


def replies_in(value: bytes, epoch: int) -> Iterator[ReplyAddress]:
    """Of the requests in one egress record."""
    try:
        record = egress.decode(value)
    except Rejected:
        return
    if record.kind is Kind.REQUEST and record.epoch < epoch:
        yield from (ReplyAddress.unpack(group.reply) for group in record.groups if group.reply)

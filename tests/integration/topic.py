"""Reads a topic of the mesh as any consumer would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from gateway.config import Config, load
from gateway.config.topics import TopicName
from tests.integration.mesh import TestMesh, wait_until


@contextmanager
def following(mesh: TestMesh, name: TopicName) -> Iterator[Callable[..., Any]]:
    """From now on; gives a function that waits for the first record for which a condition holds."""
    config = load(mesh.config_file)
    with closing(KafkaConsumer(**config.kafka.client_settings(), enable_auto_commit=False)) as consumer:
        topic = config.topic(name)
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_end()
        for partition in partitions:
            consumer.position(partition)
        seen: list[Any] = []

        def find(condition: Callable[[Any], bool], seconds: float = 20.0) -> Any:
            def found() -> bool:
                for records in consumer.poll(timeout_ms=100).values():
                    seen.extend(records)
                return any(condition(record) for record in seen)

            wait_until(found, f"a record of {topic} that was looked for, among {len(seen)}", seconds)
            return next(record for record in seen if condition(record))

        yield find


def every_record(config: Config, name: TopicName) -> Iterator[Any]:
    """What the topic holds now, from its beginning to its end."""
    with closing(KafkaConsumer(**config.kafka.client_settings(), auto_offset_reset="earliest")) as consumer:
        topic = config.topic(name)
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                yield from records


def header(record: Any, name: str) -> str:
    return next((value.decode() for key, value in record.headers if key == name), "")

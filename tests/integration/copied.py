"""A copy of a mesh's topics under another name, in which something may be missing or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import yaml
from kafka import KafkaProducer

from gateway.config import Config, load
from gateway.config.topics import TOPICS, TopicName
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.kafka.topics import ensure_topics
from tests.integration.mesh import TestMesh

AGE_US = 20 * 60 * 1_000_000
"""The copy is so much older than the mesh: nothing in it can still be on its way, but what is owed to who is away."""
OWED_SECONDS = 86_400
"""So long may that be under way: the mesh itself still owes it, to peers of other tests."""

Alter = Callable[[TopicName, TopicRecord], Iterable[TopicRecord]]


def as_it_is(_name: TopicName, record: TopicRecord) -> Iterable[TopicRecord]:
    yield record


def copied(mesh: TestMesh, name: str, folder: Path, alter: Alter = as_it_is) -> Config:
    """The configuration of the copy. The raw log keeps its offsets, or its frames would have other names."""
    original = load(mesh.config_file)
    said = yaml.safe_load(mesh.config_file.read_text()) | {"mesh": name, "trust": str(mesh.keys_file)}
    for listener in said["listeners"]:
        if "redeliver_seconds" in listener:
            listener["redeliver_seconds"] = OWED_SECONDS
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(said))
    copy = load(path)
    ensure_topics(copy)
    settings = {**copy.kafka.client_settings(), "max_request_size": copy.kafka.message_bytes}
    with History(original) as history, closing(KafkaProducer(**settings)) as producer:
        for topic in TOPICS:
            for record in list(history.read(topic, history.bounds(topic))):
                for one in alter(topic, record):
                    _write(producer, copy.topic(topic), _renamed(one, original.mesh, name))
        producer.flush()
    return copy


def _renamed(record: TopicRecord, old: str, new: str) -> TopicRecord:
    """An event's source names its mesh."""
    was, now = f"/mesh/{old}/".encode(), f"/mesh/{new}/".encode()
    headers = tuple((key, value.replace(was, now) if key == "ce_source" else value) for key, value in record.headers)
    return record._replace(headers=headers)


def _write(producer: KafkaProducer, topic: str, record: TopicRecord) -> None:
    producer.send(
        topic,
        partition=record.partition,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        timestamp_ms=(record.logged_at - AGE_US) // 1_000,
    )

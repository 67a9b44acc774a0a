"""The topic `interests` as a broker keeps it, and kafka-python's consumer as far as a reader of it uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka import TopicPartition

from gateway.config import Config

TOPIC = "t.interests"


class LoggedRecord(NamedTuple):
    offset: int
    logged_at_ms: int
    key: bytes
    value: bytes | None


class Place(NamedTuple):
    offset: int


@dataclass
class InterestsTopic:
    """Each poll takes `poll_seconds` and gives `per_poll` records; none from the offset `silent_from` on."""

    per_poll: int = 2
    poll_seconds: float = 0.0
    silent_from: int | None = None
    exists: bool = True
    records: list[LoggedRecord] = field(default_factory=list)
    now: float = 0.0
    closed: int = 0
    on_poll: Callable[[], None] = lambda: None

    def log(self, key: bytes, value: bytes | None, at_ms: int = 0) -> None:
        self.records.append(LoggedRecord(len(self.records), at_ms, key, value))

    def connect(self, _: Config) -> TopicConsumer:
        return TopicConsumer(self)

    def monotonic(self) -> float:
        return self.now


class TopicConsumer:
    def __init__(self, topic: InterestsTopic) -> None:
        self._topic = topic
        self._position = -1
        self._partitions: list[TopicPartition] = []

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0} if self._topic.exists and topic == TOPIC else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._partitions = partitions

    def assignment(self) -> set[TopicPartition]:
        return set(self._partitions)

    def seek_to_beginning(self) -> None:
        self._position = 0

    def end_offsets(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self._topic.records))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Place | None]:
        return {
            partition: next((Place(one.offset) for one in self._topic.records if one.logged_at_ms >= at), None)
            for partition, at in times.items()
        }

    def position(self, _: TopicPartition) -> int:
        return self._position

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[LoggedRecord]]:
        topic = self._topic
        topic.on_poll()
        topic.now += max(topic.poll_seconds, 0.0 if self._next() else timeout_ms / 1000)
        records = self._next()
        self._position += len(records)
        return {self._partitions[0]: records} if records else {}

    def _next(self) -> list[LoggedRecord]:
        return self._topic.records[: self._topic.silent_from][self._position : self._position + self._topic.per_poll]

    def close(self) -> None:
        self._topic.closed += 1

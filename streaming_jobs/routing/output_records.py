"""An output is what the router writes: a record of some topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.config import Config
from gateway.config.topics import TOPICS
from gateway.records import rejected_frame
from gateway.records.cloud_event import Header
from gateway.records.event_records import EventWriter, Row, record_bytes
from gateway.records.rejected_frame import RefusedFrame


class OutputRecord(NamedTuple):
    """A record to write. No partition: Kafka chooses by key. Headers that many records have in common should be the
    same objects: then they travel to the JVM once.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def bytes_of(out: OutputRecord) -> int:
    """Returns an upper bound of the record's size as a producer counts it before it compresses it."""
    return record_bytes(out.key or b"", out.value or b"", out.headers)


class Topics:
    """The topic names of this mesh, and the records that go into each."""

    def __init__(self, config: Config) -> None:
        self.events = EventWriter(config.mesh, config.kafka.message_bytes, batches=config.events.format == "batch")
        self._names = {name: config.topic(name) for name, topic in TOPICS.items() if "router" in topic.writers}

    def raw(self, partition: int, record: bytes) -> OutputRecord:
        return OutputRecord(self._names["raw"], partition, None, record)

    def event_records(self, rows: Iterable[Row], partition: int) -> list[OutputRecord]:
        """Returns the records of a raw record's events, in their order."""
        name = self._names["events"]
        return [OutputRecord(name, None, *record) for record in self.events.records(rows, partition)]

    def egress(self, edge_ordinal: int, record: bytes) -> OutputRecord:
        return OutputRecord(self._names["egress"], edge_ordinal, None, record)

    def interest(self, key: bytes, value: bytes | None) -> OutputRecord:
        return OutputRecord(self._names["interests"], None, key, value)

    def deliveries(self, record: bytes) -> OutputRecord:
        return OutputRecord(self._names["deliveries"], None, None, record)

    def rejected(self, refusals: Sequence[RefusedFrame], alone: int) -> list[OutputRecord]:
        """Returns the records of refused frames. So many of them get a record each; the others share."""
        name = self._names["rejected"]
        return [OutputRecord(name, None, None, *record) for record in rejected_frame.records(refusals, alone)]

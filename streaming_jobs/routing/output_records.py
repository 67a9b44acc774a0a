"""An output is what the router writes: a record of some topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.config import Config
from gateway.config.topics import TOPICS
from gateway.core.reasons import Rejected, Stage
from gateway.records.cloud_event import Header
from gateway.records.event_records import EventWriter, Row, record_bytes
from gateway.records.raw_log.frames import FrameSource
from gateway.records.rejected_frame import kept_part


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

    def rejected(
        self,
        event_id: str,
        stage: Stage,
        refused: Rejected,
        frame: bytes,
        source: FrameSource | None,
        again: str = "",
        *,
        is_secret: bool = False,
    ) -> OutputRecord:
        """Returns a record of `rejected`.

        Args:
            again: where the frame stands in the raw log, if that is not the position its id names.
            is_secret: the frame may hold a token.
        """
        headers = {
            "reason": refused.reason.value,
            "stage": stage,
            "detail": refused.detail,
            "event_id": event_id,
            "protocol": source.protocol if source else "",
            "peer": source.peer if source else "",
            "node": source.node if source else "",
            "listener": source.listener if source else "",
            "edge": source.edge if source else "",
        }
        if again:
            headers["again"] = again
        kept, cut = kept_part(frame, is_secret=is_secret)
        return OutputRecord(self._names["rejected"], None, None, kept, encode_headers((headers | cut).items()))


def encode_headers(headers: Iterable[tuple[str, str]]) -> list[Header]:
    return [(name, value.encode()) for name, value in headers]

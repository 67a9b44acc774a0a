"""What the router writes: rows of outputs, each output a record of some topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gateway import cloud_event
from gateway.config import Config
from gateway.config.kafka import TopicName
from gateway.event import Event
from gateway.raw_log.frames import Source
from gateway.reasons import Rejected, Stage

RECORD_BYTES, HEADER_BYTES = 128, 10
"""What Kafka's format adds to a batch of one record (61 + 21 bytes and lengths) and to a header (two lengths)."""
EVENT_NAMES_BYTES = sum(len(name) + HEADER_BYTES for name in cloud_event.NAMES)


class Out(NamedTuple):
    """A record to write. No partition: Kafka chooses by key. `event`: of an event's headers only the values, which get
    their names in the JVM (see `plan.headers`); `others`: those of any other record.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    others: cloud_event.Headers | None = None
    event: cloud_event.Values | None = None

    @property
    def headers(self) -> cloud_event.Headers:
        return self.others or [] if self.event is None else cloud_event.headers(self.event)


def bytes_of(out: Out) -> int:
    """As a producer counts a record before it compresses it: at most so many."""
    _, _, key, value, others, event = out
    size = RECORD_BYTES + len(value or b"") + len(key or b"")
    if event is not None:
        size += EVENT_NAMES_BYTES + len(b"".join(filter(None, event)))
    for name, header in others or ():
        size += len(name) + len(header) + HEADER_BYTES
    return size


class Row(NamedTuple):
    """Outputs that pass together, if the row is the first of its key. `at`: seconds; part of the key (see `dedup`)."""

    key: str
    at: int
    outs: list[Out]


class Topics:
    """Topic names of this mesh, and the records that go into each."""

    def __init__(self, config: Config) -> None:
        self._mesh = config.mesh
        self._largest_frame = config.kafka.largest_frame
        self._names: dict[TopicName, str] = {
            name: config.topic(name) for name in ("raw", "events", "rejected", "egress", "deliveries", "interests")
        }

    def raw(self, partition: int, record: bytes) -> Out:
        return Out(self._names["raw"], partition, None, record)

    def event(self, event: Event) -> Out:
        key = (event.node or event.session or event.peer).encode()
        return Out(self._names["events"], None, key, event.body, event=cloud_event.values(event, self._mesh))

    def egress(self, edge_ordinal: int, record: bytes) -> Out:
        return Out(self._names["egress"], edge_ordinal, None, record)

    def interest(self, key: bytes, value: bytes | None) -> Out:
        return Out(self._names["interests"], None, key, value)

    def deliveries(self, record: bytes) -> Out:
        return Out(self._names["deliveries"], None, None, record)

    def rejected(
        self, event_id: str, stage: Stage, refused: Rejected, frame: bytes, source: Source | None, again: str = ""
    ) -> Out:
        """`again`: where the frame stands in the raw log, if that is not the place its id names. (Only what no edge
        wrote is too large to be kept whole.)"""
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
        return Out(self._names["rejected"], None, None, frame[: self._largest_frame], encode_headers(headers.items()))


def encode_headers(headers: Iterable[tuple[str, str]]) -> cloud_event.Headers:
    return [(name, value.encode()) for name, value in headers]

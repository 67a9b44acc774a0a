"""Kafka for an edge under test: keeps what is written, acknowledges when told, and reads out what a test puts in."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gateway.config import Config
from gateway.edge.delivery.offset_tracker import Checkpoint, CommittedState
from gateway.edge.delivery.outcomes import KnownOutcomes
from gateway.edge.delivery.reader import Failed, Handle
from gateway.edge.producer import NOWHERE, NotTaken, OnSent
from gateway.records import deliveries
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Entry
from gateway.records.egress_codec import EgressRecord, record_of
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.control_frames import MESH, MeshFrame, decode
from gateway.records.raw_log.frames import RawFrame, ReplyAddress

FENCED = NotTaken("fenced", only_this=False)
TOO_LARGE = NotTaken("too large", only_this=True)


@dataclass
class Written:
    topic: str
    value: bytes
    on_sent: OnSent
    settings: dict[str, Any]
    offset: int


@dataclass
class FakeProducer:
    """`held`: acknowledges only when told. `refuses`: told at the next sends, as for a record too large. `ends`: by
    topic and partition. `waits`: how long each flush would have waited."""

    held: bool = False
    refuses: NotTaken | None = None
    written: list[Written] = field(default_factory=list)
    open: list[Written] = field(default_factory=list)
    ends: Counter[tuple[str, int]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    def send(self, topic: str, value: bytes, on_sent: OnSent, **settings: Any) -> None:
        if self.refuses is not None:
            on_sent(self.refuses, NOWHERE, 0.0)
            return
        place = topic, settings.get("partition", -1)
        record = Written(topic, value, on_sent, settings, self.ends[place])
        self.ends[place] += 1
        self.written.append(record)
        self.open.append(record)
        if not self.held:
            asyncio.get_running_loop().call_soon(self.acknowledge)

    def acknowledge(self, error: NotTaken | None = None) -> None:
        """All that is on its way; or it has failed."""
        records, self.open = self.open, []
        for record in records:
            record.on_sent(error, record.offset, 0.0)

    def collect(self) -> None:
        pass

    def flush(self, seconds: float) -> None:
        self.waits.append(seconds)

    def close(self, seconds: float) -> None:
        self.flush(seconds)


class FakeReader:
    def __init__(self) -> None:
        self.end = 0
        self.resumption = CommittedState(0, Checkpoint(0))
        self.commits: list[CommittedState] = []
        self.handled = 0
        self.stopped = False
        self._offset = 0
        self._handle: Handle | None = None

    def lag(self, handled_to: int) -> int:
        return self._offset - handled_to

    def start(self, handle: Handle, failed: Failed) -> None:
        self._handle = handle
        self.fail = failed

    def commit(self, resumption: CommittedState) -> None:
        self.commits.append(resumption)

    def commit_now(self, resumption: CommittedState) -> None:
        self.commits.append(resumption)

    def batch_handled(self) -> None:
        self.handled += 1

    def stop(self) -> None:
        self.stopped = True

    def put(self, *written: Entry | EgressRecord) -> None:
        """What the router writes, one batch. An entry stands in a record of its own."""
        records = [one if isinstance(one, EgressRecord) else record_of(one) for one in written]
        batch = [(self._offset + at, record) for at, record in enumerate(records)]
        self._offset += len(records)
        assert self._handle is not None
        self._handle(list(batch))


@dataclass
class FakeKafka:
    producer_: FakeProducer = field(default_factory=FakeProducer)
    reader_: FakeReader = field(default_factory=FakeReader)
    known: KnownOutcomes = field(default_factory=KnownOutcomes)
    waiting: list[ReplyAddress] = field(default_factory=list)

    def prepare(self, config: Config) -> None:
        pass

    def producer(self, config: Config) -> FakeProducer:
        return self.producer_

    def reader(self, config: Config) -> FakeReader:
        return self.reader_

    def look_back(self, config: Config, resumption: CommittedState) -> KnownOutcomes:
        return self.known

    def orphaned_requests(self, config: Config, epoch: int) -> list[ReplyAddress]:
        return self.waiting

    # -- what has been written ---------------------------------------------------------------------------------

    def raw(self) -> list[RawFrame]:
        """All frames in the raw log, in the order they were written."""
        records = [one.value for one in self.producer_.written if one.topic.endswith(".raw")]
        return [frame for record in records for frame in decode_record(record).frames]

    def frames(self) -> list[bytes]:
        """Those of peers."""
        return [frame.data for frame in self.raw() if frame.source.protocol != MESH]

    def mesh(self) -> list[MeshFrame]:
        """Those that the edge has written itself."""
        return [decode(frame.data) for frame in self.raw() if frame.source.protocol == MESH]

    def outcomes(self) -> list[DeliveryOutcome]:
        records = [one.value for one in self.producer_.written if one.topic.endswith(".deliveries")]
        return [row for record in records for row in deliveries.decode(record)]

    def rejected(self) -> list[dict[str, str]]:
        records = [one for one in self.producer_.written if one.topic.endswith(".rejected")]
        return [{name: value.decode() for name, value in one.settings["headers"]} for one in records]

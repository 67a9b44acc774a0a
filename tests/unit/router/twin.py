"""One record, routed twice: frame by frame by the plain path, and with its common frames in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from gateway import egress_codec, event_records
from gateway.config.settings import ordinal_of
from gateway.egress import Entry, Position
from gateway.egress_codec import EgressBuilder
from gateway.event import SECOND_US
from gateway.event_records import Row
from gateway.raw_log.container import decode_record, read_columns
from gateway.raw_log.mesh_frames import MESH
from streaming_jobs.routing.columnar import ColumnarPass
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.outputs import Out
from streaming_jobs.routing.packing import Routed
from streaming_jobs.routing.work import Work
from tests.unit.router.mesh_in_a_log import MeshInALog


@dataclass
class Memory:
    """Every key that was asked for, in order."""

    asked: list[tuple[bytes, int, bool]] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)

    def admit(self, keys: Sequence[bytes], seconds: Sequence[int]) -> list[bool]:
        is_new = []
        for key, second in zip(keys, seconds, strict=True):
            is_new.append(key not in self._seen)
            self._seen.add(key)
            self.asked.append((key, second, is_new[-1]))
        return is_new


@dataclass
class Written:
    """What one record made. The entries that the plain path wrote one by one are packed as the router packs them."""

    state: MeshState
    partition: int
    offset: int
    event_rows: list[Row] = field(default_factory=list)
    others: list[Out] = field(default_factory=list)
    in_columns: int = 0
    _builders: dict[int, EgressBuilder] = field(default_factory=dict)

    def egress(self, edge: str) -> EgressBuilder:
        return self._builder(ordinal_of(edge))

    def _builder(self, ordinal: int) -> EgressBuilder:
        largest = self.state.config.kafka.message_bytes
        return self._builders.setdefault(ordinal, EgressBuilder(self.partition, self.offset, largest))

    def take(self, routed: Routed, memory: Memory) -> None:
        key = None if routed.key is None else key_bytes(routed.key)
        second = routed.raw.received_at // SECOND_US
        if routed.raw.again is not None and routed.raw.source.protocol != MESH:
            if key is not None:
                memory.admit([key], [second])
        elif key is not None and memory.admit([key], [second]) == [False]:
            return
        for out in routed.outs:
            self._take_out(out)

    def _take_out(self, out: Out) -> None:
        writer = self.state.topics.events
        if out.topic == "t.events":
            self.event_rows += [writer.row(event) for event in event_records.read(out.headers, out.value or b"")]
        elif out.topic == "t.egress":
            for entry in egress_codec.decode(out.value or b""):
                self._builder(out.partition or 0).add(entry)
        else:
            self.others.append(out)

    def events(self) -> list[tuple[object, ...]]:
        records = self.state.topics.events.records(self.event_rows, self.partition)
        return [(record.key, record.value, tuple(record.headers)) for record in records]

    def entries(self) -> dict[int, list[Entry]]:
        return {
            ordinal: [entry for record in builder.finish() for entry in egress_codec.decode(record)]
            for ordinal, builder in sorted(self._builders.items())
        }


def key_bytes(key: str) -> bytes:
    """A repeat of one path must be known to the other."""
    node, _, message_id = key.partition(":")
    try:
        return UUID(node).bytes + bytes.fromhex(message_id)
    except ValueError:
        return key.encode()


class Twin:
    """A mesh and its memory of keys. `in_columns`: its common frames take the fast pass."""

    def __init__(self, mesh: MeshInALog, *, in_columns: bool) -> None:
        self.mesh = mesh
        self.memory = Memory()
        self._functions = mesh._functions
        self._columnar = ColumnarPass(mesh.state, self._functions._fanout) if in_columns else None
        self._ends = [0] * mesh.partitions

    def log(self, record: bytes, partition: int) -> Iterator[Written]:
        """What comes of a record, and of those that the router writes into `raw` because of it."""
        offset = self._ends[partition]
        self._ends[partition] += 1
        written = Written(self.mesh.state, partition, offset)
        if self._columnar is None:
            for routed in self._functions.route_frames(decode_record(record).frames, partition, offset):
                written.take(routed, self.memory)
        else:
            self._route(self._columnar, record, written)
        yield written
        for out in written.others:
            if out.topic == "t.raw" and out.value is not None:
                yield from self.log(out.value, out.partition or 0)

    def _route(self, columnar: ColumnarPass, record: bytes, written: Written) -> None:
        columns = read_columns(record)
        partition, offset = written.partition, written.offset
        common = columnar._read(columns, partition, offset)  # where a fault is an error and not told
        frames = columns.frames()
        verdicts = self._functions.judge(frames, partition, offset)
        row = 0
        while row < len(columns):
            if common is not None:
                begin, row = row, common.route(row, self.memory.admit, written)
                written.in_columns += row - begin
                if row == len(columns):
                    break
                event = common.event(row)
                assert event is None or event == verdicts[row]
            work = Work(self.mesh.state, Position(partition, offset, row), frames[row])
            key = self._functions._route(work, verdicts[row])
            self._functions._count(frames[row].source.protocol, work, verdicts[row])
            written.take(Routed(row, frames[row], key, work.outs, work.recorded), self.memory)
            row += 1

"""Collects what the router makes of one raw record, frame by frame. It travels through Spark as one row.

    log time | ids that the record added | records to write

The entries for one edge stand together in one record of `egress`, and the events together where `events.format` is
`batch`. A repeat's outputs are left out here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gateway.config.settings import ordinal_of
from gateway.core.event import SECOND_US
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import event_id
from gateway.core.reasons import Reason, Rejected, Stage
from gateway.records.egress import RECORD_END, Deliver, Entry, Position, SourceRefused
from gateway.records.egress_codec import EgressBuilder
from gateway.records.event_records import Row
from gateway.records.raw_log.container import RecordColumns
from gateway.records.raw_log.control_frames import MESH
from gateway.records.rejected_frame import RefusedFrame, kept_part
from streaming_jobs.routing.change_records import ChangeFrame, change_records
from streaming_jobs.routing.floods import flooding_sources
from streaming_jobs.routing.known_ids import FIRST_SECOND, LAST_SECOND, KnownIds, message_key
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.routed_frame import RoutedFrame

_UNPACKABLE = Rejected(Reason.INTERNAL, "what it gives cannot be packed; see the router's log")
_faults = RateLimitedFaultLog(logging.getLogger(__name__))


class RoutedRecord(NamedTuple):
    """The row of a record. `ids` is what `KnownIds.added_row` says: the durable form of what the lane now knows."""

    log_seconds: int
    ids: bytes
    outs: list[OutputRecord]


class RecordOutputs:
    """Collects the outputs of one record's frames, in their order."""

    def __init__(self, state: MeshState, known: KnownIds, partition: int, offset: int) -> None:
        self._state, self._known = state, known
        self._place = partition, offset
        self._outs: list[OutputRecord] = []
        self._edges: dict[int, EgressBuilder] = {}
        self._changes: list[ChangeFrame] = []
        self._refusals: list[RefusedFrame] = []
        self.event_rows: list[Row] = []
        self._waiting: Callable[[RecordOutputs], None] | None = None

    def add_frames(self, frames: Sequence[RoutedFrame]) -> None:
        """Adds the outputs of the frames that are no repeats. Repeats are counted."""
        for frame, is_new in zip(frames, self._admit(frames), strict=True):
            if is_new:
                self._add(frame)
            else:
                self._state.tally.repeated(frame.raw.source.protocol)

    def _admit(self, frames: Sequence[RoutedFrame]) -> list[bool]:
        """Returns which frames are new. A frame without a key always is."""
        if any(_is_replayed(frame) for frame in frames):
            return [self._admit_one(frame) for frame in frames]
        keyed = [at for at, frame in enumerate(frames) if frame.key is not None]
        keys = [message_key(frames[at].key or "") for at in keyed]
        admitted = self._known.admit(keys, [_received_second(frames[at]) for at in keyed])
        verdicts = [True] * len(frames)
        for at, is_new in zip(keyed, admitted, strict=True):
            verdicts[at] = is_new
        return verdicts

    def _admit_one(self, frame: RoutedFrame) -> bool:
        """A frame that stands in the log once more is never a repeat; it marks its key, so that what comes after it is.
        (The mesh's own frames tell of another frame, and have keys of their own.)
        """
        if frame.key is None:
            return True
        key, second = message_key(frame.key), _received_second(frame)
        if _is_replayed(frame):
            self._known.mark(key, second)
            return True
        return self._known.admit([key], [second])[0]

    def _add(self, frame: RoutedFrame) -> None:
        """Adds the outputs of a frame. What cannot be packed is refused, so that no frame ever ends the query."""
        self._outs += frame.outs
        self._changes += frame.changes
        self._refusals += frame.refusals
        if frame.entries:
            self._write_waiting()
        try:
            for edge_ordinal, entry in frame.entries:
                self._add_entry(self.builder(edge_ordinal), entry)
        except Exception:
            self._refuse(frame)
        if frame.event_row is not None:
            self.event_rows.append(frame.event_row)

    def _add_entry(self, builder: EgressBuilder, entry: Entry) -> None:
        if isinstance(entry, Deliver) and (route := self._state.plain_routes.find(entry)) is not None:
            at = entry.position
            builder.deliver(at.index, at.part, route, entry.received_at, entry.groups[0].frame)
        else:
            builder.add(entry)

    def _refuse(self, frame: RoutedFrame) -> None:
        """Called while an exception is handled."""
        _faults.log_exception("packing what a frame gives")
        position = Position(*self._place, frame.frame_index)
        self._refusals.append(self._state.refusal(frame.raw, position, _UNPACKABLE, Stage.MATCH))
        self._state.tally.rejected(Stage.MATCH, _UNPACKABLE.reason, frame.raw.source.protocol)

    def refuse_record(self, refused: Rejected, value: bytes) -> None:
        """Refuses the record as a whole, because it is none that an edge wrote."""
        self._refuse_as(Stage.LOG, event_id(*self._place, 0), refused, *kept_part(value))

    def _refuse_as(
        self, stage: Stage, event_id: str, refused: Rejected, kept: bytes = b"", truncated_bytes: int = 0
    ) -> None:
        """Refuses something that is no frame of a source."""
        self._refusals.append(
            RefusedFrame(
                refused.reason.value, stage, "", "", "", event_id, refused.detail, kept=kept,
                truncated_bytes=truncated_bytes,
            )
        )  # fmt: skip
        self._state.tally.rejected(stage, refused.reason, "")

    def egress(self, edge: str) -> EgressBuilder:
        """Returns what collects the entries for an edge."""
        return self.builder(ordinal_of(edge))

    def before_entries(self, write: Callable[[RecordOutputs], None]) -> None:
        """Calls `write` before the next entry of a frame, or at the end, to write many runs of frames at once."""
        self._waiting = write

    def _write_waiting(self) -> None:
        write, self._waiting = self._waiting, None
        if write is not None:
            write(self)

    def builder(self, edge_ordinal: int) -> EgressBuilder:
        """Returns what collects the entries for one edge."""
        builder = self._edges.get(edge_ordinal)
        if builder is None:
            largest = self._state.config.kafka.message_bytes
            builder = self._edges[edge_ordinal] = EgressBuilder(*self._place, largest)
        return builder

    def _name_floods(self, columns: RecordColumns) -> None:
        """Tells the record's edge of the sources that flood it with datagrams that are refused."""
        if columns.agains:  # somebody has put them in again
            return
        for part, (listener, peer) in enumerate(flooding_sources(self._refusals, columns, self._state.is_datagram)):
            self.egress(columns.edge).add(SourceRefused(Position(*self._place, RECORD_END, part), listener, peer))

    def finish(self, log_seconds: int, columns: RecordColumns | None = None) -> RoutedRecord:
        """Returns the row; nothing can be added after that.

        The sink has one request under way, so what edges wait for stands first: the next request carries the rest.
        """
        self._write_waiting()
        if columns is not None:
            self._name_floods(columns)
        topics = self._state.topics
        events = self._event_records()
        outs = [
            topics.egress(edge_ordinal, record)
            for edge_ordinal, builder in self._edges.items()
            for record in builder.finish()
        ]
        if self._changes:
            records = list(change_records(self._changes, self._state.largest_frame))
            outs += [topics.raw(number, record) for number in range(self._state.raw_partitions) for record in records]
        alone = self._state.refusal_rate.take(len(self._refusals), log_seconds)
        refusals = topics.rejected(self._refusals, alone)
        return RoutedRecord(log_seconds, self._known.added_row(), [*outs, *self._outs, *refusals, *events])

    def _event_records(self) -> list[OutputRecord]:
        write, partition = self._state.topics.event_records, self._place[0]
        try:
            return write(self.event_rows, partition)
        except Exception:  # then each alone, so that only the event at fault is refused
            records: list[OutputRecord] = []
            for row in self.event_rows:
                try:
                    records += write([row], partition)
                except Exception:
                    _faults.log_exception("packing what a frame gives")
                    self._refuse_as(Stage.MATCH, row[1].decode(), _UNPACKABLE)
            return records


def entry_bytes(entry: Entry) -> int:
    """Returns about how much of a record an entry takes: never less than three quarters of it."""
    if not isinstance(entry, Deliver):
        return 0
    size = 0
    for groups in (entry.groups, entry.groups_on_failure):
        for group in groups:
            size += len(group.frame) + len(group.reply) + 64 * group.receivers
    return size


def _is_replayed(frame: RoutedFrame) -> bool:
    return frame.raw.again is not None and frame.raw.source.protocol != MESH


def _received_second(frame: RoutedFrame) -> int:
    return min(max(frame.raw.received_at // SECOND_US, FIRST_SECOND), LAST_SECOND)

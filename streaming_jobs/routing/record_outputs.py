"""What the router makes of one raw record, collected frame by frame: it travels through Spark as one row.

    log time | ids that the record added | records to write

The entries for one edge stand together in one record of `egress`, and the events together where `events.format` is
`batch`. A repeat's outputs are left out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.egress import Deliver, Entry
from gateway.egress_codec import EgressBuilder
from gateway.event import SECOND_US
from gateway.event_records import EventRow
from gateway.raw_log.mesh_frames import MESH
from streaming_jobs.routing.known_ids import KnownIds, message_key
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.outputs import Out
from streaming_jobs.routing.routed_frame import RoutedFrame


class RoutedRecord(NamedTuple):
    """The row of a record. `ids` is what `KnownIds.added_row` says: the durable form of what the lane now knows."""

    log_seconds: int
    ids: bytes
    outs: list[Out]


class RecordOutputs:
    """Collects the outputs of one record's frames, in their order."""

    def __init__(self, state: MeshState, known: KnownIds, partition: int, offset: int) -> None:
        self._state, self._known = state, known
        self._place = partition, offset
        self._outs: list[Out] = []
        self._edges: dict[int, EgressBuilder] = {}
        self._event_rows: list[EventRow] = []

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
        self._outs += frame.outs
        for edge_ordinal, entry in frame.entries:
            self.builder(edge_ordinal).add(entry)
        if frame.event is not None:
            self._event_rows.append(self._state.topics.events.row(frame.event))

    def builder(self, edge_ordinal: int) -> EgressBuilder:
        """Returns what collects the entries for one edge."""
        builder = self._edges.get(edge_ordinal)
        if builder is None:
            largest = self._state.config.kafka.message_bytes
            builder = self._edges[edge_ordinal] = EgressBuilder(*self._place, largest)
        return builder

    def add(self, out: Out) -> None:
        self._outs.append(out)

    def finish(self, log_seconds: int) -> RoutedRecord:
        topics = self._state.topics
        outs = self._outs
        outs += topics.event_records(self._event_rows, self._place[0])
        for edge_ordinal, builder in self._edges.items():
            outs += [topics.egress(edge_ordinal, record) for record in builder.finish()]
        return RoutedRecord(log_seconds, self._known.added_row(), outs)


def entry_bytes(entry: Entry) -> int:
    """Returns about how much of a record an entry takes: never less than three quarters of it."""
    if not isinstance(entry, Deliver):
        return 0
    groups = (*entry.groups, *entry.groups_on_failure)
    return sum(len(group.frame) + len(group.reply) + 64 * group.receivers for group in groups)


def _is_replayed(frame: RoutedFrame) -> bool:
    return frame.raw.again is not None and frame.raw.source.protocol != MESH


def _received_second(frame: RoutedFrame) -> int:
    return frame.raw.received_at // SECOND_US

"""How the outputs of a record's frames travel through Spark: as few rows as their dedup keys allow.

A row is what costs. A frame with a key of its own needs one, or two where it marks two buckets; frames without a key
travel together, for nothing of theirs is ever dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.event import SECOND_US, Event
from gateway.raw_log.frames import RawFrame
from gateway.raw_log.mesh_frames import MESH
from streaming_jobs.routing.change_records import ChangeFrame, change_records
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.outputs import Out, Row


@dataclass(slots=True)
class Routed:
    """A frame, and what was made of it."""

    frame_index: int
    raw: RawFrame
    key: str | None
    outs: list[Out]
    event: Event | None
    changes: Sequence[ChangeFrame] = ()


class Packing:
    """Collects the rows of a record. Changes of the interests that travel together become one record a partition."""

    def __init__(self, state: MeshState, partition: int, offset: int, now_seconds: int) -> None:
        self._state = state
        self._buckets = state.buckets
        self._record = f"{partition}-{offset}"
        self._now = now_seconds
        self._rows: list[Row] = []
        self._run: list[Out] = []
        self._changes: list[ChangeFrame] = []
        self._run_key = ""
        self._run_at = 0
        self._second = -1
        self._marks_then: tuple[int, ...] = ()

    def add_routed(self, routed: Routed) -> None:
        """A frame that stands in the log once more passes whatever was dropped as its repeat, and marks its key so that
        what comes after it does not. (The mesh's own tell of another frame, and have keys of their own.)
        """
        index, raw, key = routed.frame_index, routed.raw, routed.key
        if raw.again is None or raw.source.protocol == MESH:
            self.add(index, raw.received_at, key, routed.outs, routed.changes)
            return
        self.add(index, raw.received_at, None, routed.outs)
        if key is not None:
            self.add(index, raw.received_at, key, [])

    def add(
        self, index: int, received_at: int, key: str | None, outs: list[Out], changes: Sequence[ChangeFrame] = ()
    ) -> None:
        if key is None:
            self._extend_run(index, received_at, outs, changes)
            return
        self._close_run()  # order holds: what came before goes before
        if changes:
            outs = outs + self._records_of(changes)
        for start in self._marks(received_at):
            self._rows.append(Row(key, start, outs))
            outs = []  # only the first row carries them

    def _extend_run(self, index: int, received_at: int, outs: list[Out], changes: Sequence[ChangeFrame]) -> None:
        if not outs and not changes:
            return
        if not self._run and not self._changes:
            self._run_key = f"run:{self._record}-{index}"
            self._run_at = self._marks(received_at)[0]
        self._run.extend(outs)
        if changes:
            self._changes.extend(changes)

    def _marks(self, received_at: int) -> tuple[int, ...]:
        """Frames of a record were mostly received within one second."""
        second = received_at // SECOND_US
        if second != self._second:
            self._second, buckets = second, self._buckets
            self._marks_then = buckets.marks(buckets.counted_seconds(second, self._now))
        return self._marks_then

    def _records_of(self, changes: Sequence[ChangeFrame]) -> list[Out]:
        """Returns the changes for each raw partition."""
        records = list(change_records(changes, self._state.largest_frame))
        return [self._state.topics.raw(number, one) for number in range(self._state.raw_partitions) for one in records]

    def _close_run(self) -> None:
        if self._changes:
            self._run += self._records_of(self._changes)
            self._changes = []
        if self._run:
            self._rows.append(Row(self._run_key, self._run_at, self._run))
            self._run = []

    def finish(self) -> list[Row]:
        self._close_run()
        return self._rows

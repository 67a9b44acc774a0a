"""Keeps the offset from which the next start must read the egress partition, whatever killed this edge.

Every delivery gets an outcome in `deliveries`. Until that stands on all in-sync replicas the delivery is *open*, and
the committed offset may not pass its record: a killed edge reads it again, and its successor says what became of it.

    offset     handled so far ──────────────────────────────────────────────►│
    sessions   │◄── an open delivery to a session: confirmations come late
    owed   │◄── an open delivery to a node that is away: minutes, perhaps
           committed

The router repeats its output since its last commit after a crash, in the same order and with the same positions. So for
each raw partition the last position is kept, and nothing at or before it passes again. What is committed with an offset
are the positions *as they were there*: so a record that is read again is judged as it was the first time, also when the
router's repeats stand among those read again. A record is handled in several steps, and a checkpoint may be taken
between two of them. So the positions advance only when the whole record has been handled: a restart meets all of it
again. Hence checkpoints, taken now and then, of which the newest is committed
that no open delivery stands before.

What is read again has perhaps been handled. Sessions do not outlive an edge, so for them only the outcome is missing,
if it is; and below `sessions_to` it is not. Deliveries that are owed are looked up in `deliveries` (see `outcomes`),
the one place where it stands what became of them: the offset's metadata would be too small for that.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

import msgpack

from gateway.records.egress import Position
from gateway.records.egress_codec import EgressRecord

METADATA_BYTES = 4_096
"""The most that a broker keeps beside an offset by default. 280 raw partitions fit; beyond them, raise the broker's
`offset.metadata.max.bytes`."""
CHECKPOINTS = 64
"""Kept while something is open for long; then every second one goes, and a restart reads a little more."""

Positions = dict[int, Position]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The positions handled when everything before `offset` was.

    Args:
        at_ms: the wall clock's time then.
        owed_ended: how many owed deliveries this life had ended by then. It is not committed.
    """

    offset: int
    positions: Positions = field(default_factory=dict)
    at_ms: int = 0
    owed_ended: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The committed state that a start finds.

    No delivery to a session is open below `sessions_to`. No such outcome was written before `sessions_ms`.
    """

    epoch: int
    checkpoint: Checkpoint
    sessions_to: int = 0
    sessions_ms: int = 0

    def to_metadata(self) -> str:
        positions = [number for position in self.checkpoint.positions.values() for number in _fields(position)]
        fields = (self.epoch, positions, self.checkpoint.at_ms, self.sessions_to, self.sessions_ms)
        return base64.b64encode(msgpack.packb(fields)).decode()

    @classmethod
    def from_metadata(cls, offset: int, text: str) -> CommittedState:
        """Reads the committed metadata. If no edge wrote it, all that follows the offset is handled as new."""
        try:
            epoch, numbers, at_ms, sessions_to, sessions_ms = msgpack.unpackb(base64.b64decode(text, validate=True))
            rows = [numbers[at : at + 4] for at in range(0, len(numbers), 4)]
            positions = {row[0]: Position(*row) for row in rows}
        except (ValueError, TypeError, IndexError, binascii.Error, msgpack.exceptions.UnpackException):
            return cls(0, Checkpoint(offset))
        return cls(epoch, Checkpoint(offset, positions, at_ms), sessions_to, sessions_ms)


def _fields(position: Position) -> tuple[int, int, int, int]:
    return position.partition, position.offset, position.index, position.part


class OffsetTracker:
    """Tracks which records are handled and which deliveries are open. `epoch` is this edge's.

    Offsets come in order. What is open is settled in any order.
    """

    def __init__(self, epoch: int, begin: Checkpoint) -> None:
        self._epoch = epoch
        self._positions = dict(begin.positions)
        self._reached: Position | None = None
        self._checkpoints = [begin]
        self._open: dict[bool, dict[int, int]] = {False: {}, True: {}}
        self._owed_ended = 0
        self.handled_to = begin.offset

    def begin(self, record: EgressRecord) -> EgressRecord:
        """Returns the record without what was handled before. Its positions count as handled once it is `done`."""
        record = record.after(self._positions.get(record.partition))
        self._reached = record.position(len(record) - 1) if len(record) else None
        return record

    def open(self, offset: int, count: int = 1, *, owed: bool = False) -> None:
        """Counts so many more deliveries of that record that have no outcome yet."""
        table = self._open[owed]
        table[offset] = table.get(offset, 0) + count

    def settle(self, offset: int, count: int = 1, *, owed: bool = False) -> None:
        """Counts so many deliveries of that record as over: their outcomes are on all in-sync replicas."""
        table = self._open[owed]
        self._owed_ended += count if owed else 0
        remaining = table.get(offset, 0) - count
        if remaining > 0:
            table[offset] = remaining
        else:
            table.pop(offset, None)

    def done(self, end: int) -> None:
        """Notes that all records before this offset have been handled."""
        self.handled_to = end
        if self._reached is not None:
            self._positions[self._reached.partition] = self._reached
            self._reached = None

    def checkpoint(self, at_ms: int) -> CommittedState:
        """Takes one, and says what may be committed."""
        if self.handled_to > self._checkpoints[-1].offset:
            self._checkpoints.append(Checkpoint(self.handled_to, dict(self._positions), at_ms, self._owed_ended))
        sessions = self._latest(self._oldest(False))
        committed = self._latest(min(self._oldest(False), self._oldest(True)))
        self._checkpoints = [checkpoint for checkpoint in self._checkpoints if checkpoint.offset >= committed.offset]
        if len(self._checkpoints) > CHECKPOINTS:
            self._checkpoints = [*self._checkpoints[:-1:2], self._checkpoints[-1]]
        return CommittedState(self._epoch, committed, sessions.offset, sessions.at_ms)

    def owed_too_long(self, most: int) -> int:
        """Returns the offset before which nothing may be owed any more; 0 if all may wait on.

        A restart reads the outcome of every owed delivery that ended since the oldest open one was handled. Once those
        are more than `most`, half as many may stay.
        """
        ended = self._owed_ended
        if ended - self._latest(self._oldest(True)).owed_ended <= most:
            return 0
        recent = (checkpoint.offset for checkpoint in self._checkpoints if ended - checkpoint.owed_ended <= most // 2)
        return next(recent, self.handled_to)

    @property
    def ended_to(self) -> int:
        """Every delivery before this offset has its outcome, but for those that are owed."""
        return self._oldest(False)

    def _oldest(self, owed: bool) -> int:
        """Offsets were opened in order, so the first that is left is the oldest."""
        return next(iter(self._open[owed]), self.handled_to)

    def _latest(self, offset: int) -> Checkpoint:
        return next(checkpoint for checkpoint in reversed(self._checkpoints) if checkpoint.offset <= offset)

"""The entries by which the router tells one edge what to do for one raw frame. `egress_codec` writes and reads them.

Every entry has a position: the raw frame that it follows from, and a count of the entries that this frame made for
this edge. An edge that has handled a position lets nothing at or before it (of the same raw partition) pass again. That
makes the router's repeats after a crash harmless. It needs the count to be **per edge**: what another edge gets of the
same frame may differ between the two times, because a restarted worker's interest table may be ahead of the log.

Classes that are made for every event are not `frozen`, because that costs three times as much. They are not changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.core.event import Kind
from gateway.core.ids import FramePosition, event_id


@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """A place in the raw log: partition, offset, index of the frame, and a count of the entries made of it."""

    partition: int
    offset: int
    index: int
    part: int = 0

    def with_part(self, part: int) -> Position:
        return Position(self.partition, self.offset, self.index, part)

    @property
    def frame(self) -> FramePosition:
        return FramePosition(self.partition, self.offset, self.index)

    @property
    def event_id(self) -> str:
        return event_id(self.partition, self.offset, self.index)


class PositionFilter:
    """Lets each position pass once, in its order. `positions` holds the last one that passed, by raw partition."""

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}

    def passes(self, position: Position) -> bool:
        """False for a repeat."""
        last = self.positions.get(position.partition)
        if last is not None and position <= last:
            return False
        self.positions[position.partition] = position
        return True


NO_FRAME = b""
"""Stands where the receiver's protocol has no form for an event: its session is only told that a request is over."""


@dataclass(slots=True)
class Group:
    """A group is one encoded frame and the receivers that it goes to.

    Args:
        sessions: their numbers within the edge's epoch.
        addresses: listener and `host:port` of datagram peers.
        request: the receiver's own id of the request that this answers.
        reply: the packed ReplyAddress of the requester (for requests and cancels).
        owed: durable names of nodes that get it even when their session is away.
    """

    protocol: str
    frame: bytes
    stamps: tuple[int, ...] = ()
    sessions: tuple[int, ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()
    request: str = ""
    reply: bytes = b""
    owed: tuple[str, ...] = ()

    @property
    def receivers(self) -> int:
        return len(self.sessions) + len(self.addresses) + len(self.owed)


@dataclass(frozen=True, slots=True)
class Confirm:
    """Says whom to tell that an entry has been delivered: the edge that holds a publisher's answer, and its ticket."""

    edge: str
    ticket: str


@dataclass(slots=True)
class Deliver:
    """Frames for sessions, datagram peers and nodes of the edge. `epoch` is the one that the sessions belong to.

    Args:
        ticket: hold the groups back until as many `InterestApplied` with this ticket have come as there are raw
            partitions; or, with `required_confirmations`, that many `RecordConfirmed`.
        first_id: the event's id where its frame stands in the raw log once more (the position is that of the later
            place).
        groups_on_failure: go out in place of `groups` if one of the required confirmations says that it failed.
        confirm: whom to tell when all deliveries of this entry are over.
        is_migrated: another edge has owed this delivery so far, under the same name.
        trace: the `traceparent` that its deliveries follow from, where the event is traced.
    """

    position: Position
    epoch: int
    kind: Kind
    subject: str
    origin: str
    received_at: int
    groups: tuple[Group, ...] = ()
    ticket: str = ""
    first_id: str = ""
    required_confirmations: int = 0
    groups_on_failure: tuple[Group, ...] = ()
    confirm: Confirm | None = None
    is_migrated: bool = False
    trace: str = ""

    @property
    def event_id(self) -> str:
        return self.first_id or self.position.event_id


@dataclass(frozen=True, slots=True)
class InterestApplied:
    """An interest stands in one more raw partition. `ticket` names the answer that waits for it."""

    position: Position
    ticket: str
    partition: int


@dataclass(frozen=True, slots=True)
class RecordConfirmed:
    """Says that one entry is over that a held answer waits for.

    `edge` and `part` name the entry. `failed` means that not every receiver has got it.
    """

    position: Position
    ticket: str
    edge: str
    part: int
    failed: bool


@dataclass(frozen=True, slots=True)
class EdgeRestarted:
    """Says that another edge has restarted: nobody at its epochs before this one waits for answers any more."""

    position: Position
    edge: str
    epoch: int


class MigrationPhase(StrEnum):
    """The steps of a migration: for the old edge, for the new one, and the end (see `edge/delivery/migration`)."""

    GIVE = "give"
    EXPECT = "expect"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """A node has moved to another edge, and what it is owed of one raw partition follows it.

    Args:
        move: names the migration.
        edge: where the node has gone.
        session: the one that the node has left; what a later session has got stays there.
    """

    position: Position
    step: MigrationPhase
    node: str
    move: str
    edge: str = ""
    session: str = ""


RECORD_END = 2**16 - 1
"""The index of an entry that is about a raw record as a whole: it stands behind those of all frames."""


@dataclass(frozen=True, slots=True)
class SourceRefused:
    """Says that nearly everything is refused that a source of datagrams sends. `peer` is its address."""

    position: Position
    listener: str
    peer: str


Entry = Deliver | InterestApplied | RecordConfirmed | EdgeRestarted | MigrationStep | SourceRefused

"""The record format of `egress`: what the router hands to one edge for one event.

One record holds every destination of an event on that edge: an encoding stands once, with the list of those it goes to.
`position` names the raw frame and counts its records; an edge that has handled a position lets nothing at or before it
(of the same raw partition) pass again, which is what makes the router's repeats after a crash harmless.

What is made for every event is not `frozen`, for that costs three times as much; it is not changed all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import msgpack

from gateway.event import Kind
from gateway.reasons import Reason, Rejected

VERSION = 1


@dataclass(slots=True, order=True, unsafe_hash=True)
class Position:
    """Raw partition, offset, index of the frame, and a count of what was written for it."""

    partition: int
    offset: int
    index: int
    part: int = 0

    def with_part(self, part: int) -> Position:
        return Position(self.partition, self.offset, self.index, part)

    @property
    def event_id(self) -> str:
        return f"{self.partition}-{self.offset}-{self.index}"


class Passing:
    """Lets each position pass once, in its order. `positions`: the last that passed, by raw partition."""

    def __init__(self, positions: Mapping[int, Position] = MappingProxyType({})) -> None:
        self.positions = dict(positions)

    def passes(self, position: Position) -> bool:
        """False for a repeat."""
        last = self.positions.get(position.partition)
        if last is not None and position <= last:
            return False
        self.positions[position.partition] = position
        return True


@dataclass(slots=True)
class Group:
    """One encoding and whom it goes to.

    `sessions`: numbers within the edge's epoch. `addresses`: `listener host:port` of datagram peers.
    `reply`: the packed ReplyAddress of who asked (requests and cancels). `request`: the receiver's own id of the
    request that is answered. `owed`: nodes that get it even when their session is away, by name.
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
class Applied:
    """An interest stands in one more raw partition; `ticket` names what waits for it."""

    ticket: str
    partition: int


@dataclass(frozen=True, slots=True)
class Confirm:
    """Whom to tell that a record has been delivered: the edge where a publisher's answer is held, and its ticket."""

    edge: str
    ticket: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """One record that a held answer waits for is over; `failed`: not everybody has got it. `part`: the record's."""

    ticket: str
    part: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """An edge has begun anew: nobody at its lives before this epoch waits for answers any more."""

    edge: str
    epoch: int


class Step(StrEnum):
    """Of a handover: to the old edge, to the new one, with what is handed over, and after it. See `edge/handover`."""

    GIVE = "give"
    EXPECT = "expect"
    GIVEN = "given"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Handover:
    """A node has moved to another edge, and with it what it is owed of one raw partition.

    `move`: names the move. `edge`: where to. `session`: which the node has left; what a later one has got stays there.
    """

    step: Step
    node: str
    move: str
    edge: str = ""
    session: str = ""


@dataclass(slots=True)
class Egress:
    """What an edge has to do for one position. `epoch`: the one its sessions belong to.

    `ticket`: hold the groups back until so many `Applied` with this ticket have come as there are raw partitions; or,
    where records are `needed`, a `Confirmed` for each of so many. If one of those has failed, `otherwise` goes out in
    place of the groups, to the same receivers.
    `first_id`: the event's id where its frame stands in the raw log once more; the position is that of the later place.
    `confirm`: whom to tell when all deliveries of this record are over. `begun`: another edge.
    `trace`: the `traceparent` that its deliveries follow from, where the event is traced.
    """

    position: Position
    epoch: int
    kind: Kind
    subject: str
    origin: str
    received_at: int
    groups: tuple[Group, ...] = ()
    applied: Applied | None = None
    ticket: str = ""
    first_id: str = ""
    needed: int = 0
    otherwise: tuple[Group, ...] = ()
    confirm: Confirm | None = None
    confirmed: Confirmed | None = None
    handover: Handover | None = None
    begun: Begun | None = None
    trace: str = ""

    @property
    def event_id(self) -> str:
        return self.first_id or self.position.event_id

    def encode(self) -> bytes:
        p = self.position
        packed: bytes = _packer.pack(
            (
                VERSION,
                (p.partition, p.offset, p.index, p.part),
                self.epoch,
                self.kind,
                self.subject,
                self.origin,
                self.received_at,
                _packed(self.groups),
                (self.applied.ticket, self.applied.partition) if self.applied else None,
                self.ticket,
                *self._rare(),
            )
        )
        return packed

    def _rare(self) -> tuple[object, ...]:
        """What few records have, and only those carry."""
        rare = self.first_id or self.needed or self.confirm or self.confirmed or self.handover or self.begun
        if not (rare or self.trace):
            return ()
        confirm = (self.confirm.edge, self.confirm.ticket) if self.confirm else None
        confirmed = (self.confirmed.ticket, self.confirmed.part, self.confirmed.failed) if self.confirmed else None
        moved = self.handover
        handover = (moved.step.value, moved.node, moved.move, moved.edge, moved.session) if moved else None
        begun = (self.begun.edge, self.begun.epoch) if self.begun else None
        return self.first_id, self.needed, _packed(self.otherwise), confirm, confirmed, handover, begun, self.trace


_RARE: tuple[Any, ...] = ("", 0, (), None, None, None, None, "")
"""What few records have, where they have it not."""
_KINDS = {kind.value: kind for kind in Kind}
_packer = msgpack.Packer()
"""Kept, for to make one takes a third of the time of packing. Records are written in one thread."""


def _packed(groups: tuple[Group, ...]) -> list[tuple[object, ...]]:
    return [(g.protocol, g.frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in groups]


def decode(data: bytes) -> Egress:
    """Reads a record; raises Rejected for what no router of this version wrote."""
    try:
        fields = msgpack.unpackb(data, use_list=False)
        if fields[0] != VERSION:
            raise Rejected(Reason.UNSUPPORTED_VERSION, f"egress version {fields[0]}; this build reads {VERSION}")
        _, position, epoch, kind, subject, origin, received_at, groups, applied, ticket, *rare = fields
        record = Egress(
            Position(*position),
            epoch,
            _KINDS[kind],
            subject,
            origin,
            received_at,
            tuple([Group(*group) for group in groups]),
            Applied(*applied) if applied else None,
            ticket,
        )
        if rare:
            _add_rare(record, *rare, *_RARE[len(rare) :])
    except (LookupError, ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"egress record: {type(error).__name__}") from None
    return record


def _add_rare(
    record: Egress, first_id: str, needed: int, otherwise: Any, confirm: Any, confirmed: Any, handover: Any,
    begun: Any, trace: str, *_: object,
) -> None:  # fmt: skip
    """Records of earlier builds end sooner, and those of later ones say more."""
    record.first_id, record.needed, record.trace = first_id, needed, trace
    record.otherwise = tuple([Group(*group) for group in otherwise])
    record.confirm = Confirm(*confirm) if confirm else None
    record.confirmed = Confirmed(*confirmed) if confirmed else None
    record.handover = Handover(Step(handover[0]), *handover[1:]) if handover else None
    record.begun = Begun(*begun) if begun else None

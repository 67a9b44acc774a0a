"""The layout of an `egress` record, and the routes in its head."""

from __future__ import annotations

import struct

import msgpack

from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.records.egress import Deliver, Group, Position

MAGIC = b"MGE"
VERSION = 2
OWN_ENTRY = 0xFFFF
"""A route number that means: the row's value is a whole entry and not a frame."""
ROW_BYTES = 2 + 4 + 2 + 4 + 8
HEAD_BYTES = 64
"""The most bytes before the routes: the prefix, two numbers and the beginnings of two arrays."""

PREFIX = struct.Struct("<3sBII")
packer = msgpack.Packer()
"""Kept, because making one takes a third of the time of packing. Records are written in one thread."""


class Route:
    """A route is the part that many deliveries share: all of an entry except its position, its time and its frame.

    The frames of `groups` are empty: every row brings its own. `packed` is the form in which a record's head has it.
    """

    __slots__ = ("epoch", "groups", "kind", "origin", "packed", "subject")

    def __init__(self, kind: Kind, subject: str, origin: str, epoch: int, groups: tuple[Group, ...]) -> None:
        self.kind, self.subject, self.origin, self.epoch, self.groups = kind, subject, origin, epoch, groups
        receivers = [(g.protocol, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in groups]
        self.packed: bytes = packer.pack((kind.value, subject, origin, epoch, receivers))

    def delivery(self, position: Position, received_at: int, frame: bytes) -> Deliver:
        """Returns the entry that a row of this route stands for."""
        groups = [
            Group(g.protocol, frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in self.groups
        ]
        return Deliver(position, self.epoch, self.kind, self.subject, self.origin, received_at, tuple(groups))


def unsupported_version(version: object) -> Rejected:
    return Rejected(Reason.UNSUPPORTED_VERSION, f"egress version {version}; this build reads 1 and {VERSION}")

"""The names of frames, sessions, nodes and datagram peers. Each form is written and read here alone.

| name | form | example |
|---|---|---|
| event id | raw partition, offset of the record, index of the frame | `3-1200-7` |
| session id | edge, epoch in hexadecimal, number of the session | `edge-0.19a1f.7` |
| datagram peer | listener and address | `devices 10.0.0.7:5050` |
| node that nobody has proven | edge, and the session id or the address of a datagram | `anon:edge-0:edge-0.19a1f.7` |
| durable name of a node | node and listener: what outlives its sessions | `node:urn:plc-7@plc` |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

ANONYMOUS = "anon:"
"""The names of nodes that nobody has proven begin with this, for sessions and packets."""
_DURABLE = "node:"
_EVENT_ID = re.compile(r"(\d{1,9})-(\d{1,18})-(\d{1,9})", re.ASCII)
_SESSION_ID = re.compile(r"([A-Za-z0-9-]+)\.([0-9a-f]+)\.([0-9]+)", re.ASCII)


class FramePosition(NamedTuple):
    """The place of a frame in the raw log. Its text is the event id.

    >>> FramePosition.parse("3-1200-7")
    FramePosition(partition=3, offset=1200, frame_index=7)
    >>> FramePosition(3, 1200, 7).event_id
    '3-1200-7'
    """

    partition: int
    offset: int
    frame_index: int

    @property
    def event_id(self) -> str:
        return event_id(self.partition, self.offset, self.frame_index)

    @classmethod
    def parse(cls, text: str) -> FramePosition:
        """Returns the position that an event id names. Raises ValueError."""
        match = _EVENT_ID.fullmatch(text)
        if match is None:
            raise ValueError(f"{text} is no event id such as 3-1200-7 (raw partition, offset, index)")
        return cls(*map(int, match.groups()))


def event_id(partition: int, offset: int, index: int) -> str:
    return f"{partition}-{offset}-{index}"


def event_ids(partition: int, offset: int, indices: Iterable[int]) -> list[str]:
    """Returns the event ids of frames of one record.

    >>> event_ids(3, 1200, range(2))
    ['3-1200-0', '3-1200-1']
    """
    record = record_id(partition, offset)
    return [f"{record}-{index}" for index in indices]


def record_id(partition: int, offset: int) -> str:
    """Returns the part that the event ids of all frames of a record begin with."""
    return f"{partition}-{offset}"


class SessionId(NamedTuple):
    """The name of a session in the whole mesh.

    >>> SessionId.parse("edge-0.19a1f.7")
    SessionId(edge='edge-0', epoch=104991, number=7)
    """

    edge: str
    epoch: int
    number: int

    def __str__(self) -> str:
        return session_id(self.edge, self.epoch, self.number)

    @classmethod
    def parse(cls, text: str) -> SessionId:
        """Raises ValueError for what names no session."""
        match = _SESSION_ID.fullmatch(text)
        if match is None:
            raise ValueError(f"{text} is no session id such as edge-0.19a1f.7 (edge, epoch, number)")
        return cls(match[1], int(match[2], 16), int(match[3]))


def session_id(edge: str, epoch: int, number: int) -> str:
    return f"{edge}.{epoch:x}.{number}"


def datagram_name(listener: str, address: str) -> str:
    """Returns the name of a destination that is no session, as `session_id` names one that is."""
    return f"{listener} {address}"


def anonymous_node(edge: str, name: str) -> str:
    """Returns the node of a sender that has proven nothing. `name` is its session id, or its address for a datagram."""
    return f"{ANONYMOUS}{edge}:{name}"


def is_anonymous(node: str) -> bool:
    """Returns True if nothing has proven who the node is: its name is made of its session's.

    >>> is_anonymous("anon:edge-0:edge-0.19a1f.7"), is_anonymous("cn:plant-1")
    (True, False)
    """
    return node.startswith(ANONYMOUS)


def durable_name(node: str, listener: str) -> str:
    """Returns the name under which a node subscribes, and is owed deliveries, if it outlives its sessions."""
    return f"{_DURABLE}{node}@{listener}"


def is_durable_name(name: str) -> bool:
    return name.startswith(_DURABLE)


def durable_parts(name: str) -> tuple[str, str]:
    """Returns node and listener of a durable name.

    >>> durable_parts(durable_name("urn:a@b", "plc"))
    ('urn:a@b', 'plc')
    """
    node, _, listener = name.removeprefix(_DURABLE).rpartition("@")
    return node, listener

"""The one frame of tick: `u16 size of the rest | u8 kind | u32 id | s8 subject | body`."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.event import Kind

KINDS = (Kind.EVENT, Kind.REQUEST, Kind.RESPONSE, Kind.ERROR)
ID_OFFSET = 3
"""Where the id stands that a session stamps."""


@dataclass(frozen=True, slots=True)
class Frame:
    """`id` is 0 for an event, else the requester's own."""

    kind: Kind
    id: int
    subject: str
    body: bytes

"""Finds the fields of the common packet, at speed.

The common packet is an event whose fields ascend, so that its canonical bytes are a prefix of it:

    header | 01 name | one data field? | 14 node | 15 timestamp? | 18 key id? | 10 HMAC? | 12 signature?

A scan gives the offset of each value in the packet by its `FieldPosition` (0: absent), or None for any packet that is
not plainly of this form. None says nothing about the packet: `judge`, which knows every clause, then decides. So a scan
may give up for any reason, but what it does accept must hold every rule of `codec` and `rules` except those that look
into values: UTF-8 and JSON.

What devices send is of few shapes. So of a walk that has found a common packet is kept what it has read: where another
packet of that size has the same octets, a walk would find the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import NamedTuple

from gateway.protocols.emm.frames import (
    FLAGS_OFFSET,
    HEADER_BYTES,
    MAX_FIELD_BYTES,
    MAX_PACKET_BYTES,
    VALUE_BYTES,
    VERSION,
    EventType,
    FieldType,
    Flag,
)


class FieldPosition(IntEnum):
    """The fields in the order they have on the wire. Each stands once at most."""

    NAME = 1
    DATA = 2
    NODE = 3
    SIGNED_AT = 4
    KEY_ID = 5
    HMAC = 6
    SIGNATURE = 7


Places = Sequence[int]

_PLACE_OF: dict[int, FieldPosition] = {
    FieldType.STRING: FieldPosition.NAME,  # the first; a second one is data
    FieldType.INTEGER: FieldPosition.DATA,
    FieldType.FLOAT: FieldPosition.DATA,
    FieldType.BINARY: FieldPosition.DATA,
    FieldType.JSON: FieldPosition.DATA,
    FieldType.NODE_ID: FieldPosition.NODE,
    FieldType.TIMESTAMP: FieldPosition.SIGNED_AT,
    FieldType.AUTH_KEY_ID: FieldPosition.KEY_ID,
    FieldType.HMAC: FieldPosition.HMAC,
    FieldType.SIGNATURE: FieldPosition.SIGNATURE,
}
_NO_PLACE = 0
_PLACES = bytes(_PLACE_OF.get(kind, _NO_PLACE) for kind in range(256))
_WIDTHS = bytes(VALUE_BYTES.get(kind, 0) for kind in range(256))  # 0: any
_COLUMNS = len(FieldPosition) + 1
# A member of an enum is found in ten times the time of a global name.
_NAME, _DATA, _NODE, _HMAC = (
    FieldPosition.NAME.value,
    FieldPosition.DATA.value,
    FieldPosition.NODE.value,
    FieldPosition.HMAC.value,
)
_URGENT, _EVENT = Flag.URGENT.value, EventType.EVENT.value

_HEADER_OCTETS = (0, FLAGS_OFFSET, 6, 15, 16)  # those that a walk reads: the last two are Payload Length
_NAME_WIDTH = HEADER_BYTES + 1
SHAPES_KEPT = 4_096
"""One takes half a kilobyte. Beyond so many all go: the mesh's own devices have theirs back within a packet each."""


class _Shape(NamedTuple):
    """The octets that a walk has read, and what it has found."""

    read: Callable[[bytes], tuple[int, ...]]
    octets: tuple[int, ...]
    places: Places


_shapes: dict[tuple[int, int, int], _Shape] = {}
"""The shapes by size, flags and length of the name: packets that differ in more than these are rare."""


def scan(packet: bytes) -> Places | None:
    """Returns the places in a packet."""
    try:
        shape = _shapes.get((len(packet), packet[FLAGS_OFFSET], packet[_NAME_WIDTH]))
    except IndexError:  # too short to hold a name
        return None
    if shape is not None and shape.read(packet) == shape.octets:
        return shape.places
    places = walk(packet)
    if places is not None:
        _keep(packet, places)
    return places


def walk(packet: bytes) -> Places | None:
    """Returns what `scan` returns, going from field to field."""
    try:
        return _walk(packet) if _has_common_header(packet) else None
    except IndexError:  # a field head beyond the end
        return None


def _has_common_header(packet: bytes) -> bool:
    size = len(packet)
    return (
        size <= MAX_PACKET_BYTES
        and packet[0] == VERSION
        and packet[FLAGS_OFFSET] <= _URGENT
        and packet[6] == _EVENT
        and packet[15] << 8 | packet[16] == size - HEADER_BYTES
    )


def _walk(packet: bytes) -> Places | None:
    places = [0] * _COLUMNS
    last, position, size = _NO_PLACE, HEADER_BYTES, len(packet)
    while position < size:
        kind, width = packet[position], packet[position + 1]
        place = _PLACES[kind]
        if place == last == _NAME:
            place = _DATA
        expected_width = _WIDTHS[kind]
        # 255 bytes may go on in the next field, none at all is a question of its own
        if place <= last or (width != expected_width if expected_width else width == MAX_FIELD_BYTES):
            return None
        position += 2
        places[place] = position
        position += width
        last = place
    complete = position == size and last >= _HMAC and places[_NAME] and places[_NODE]
    return tuple(places) if complete else None  # for all packets of this shape: none may change it


def octets_read(places: Places) -> tuple[int, ...]:
    """Returns where the octets stand that a walk to these places has read."""
    heads = [head for value in places if value for head in (value - 2, value - 1)]
    return (*_HEADER_OCTETS, *heads)


def _keep(packet: bytes, places: Places) -> None:
    read = itemgetter(*octets_read(places))
    if len(_shapes) >= SHAPES_KEPT:
        _shapes.clear()
    _shapes[len(packet), packet[FLAGS_OFFSET], packet[_NAME_WIDTH]] = _Shape(read, read(packet), places)

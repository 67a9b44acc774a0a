"""Where the fields of the common packet stand, found at speed: alone, or a whole container in lockstep.

The common packet is an event whose fields ascend, so that its canonical bytes are a prefix of it:

    header | 01 name | one data field? | 14 node | 15 timestamp? | 18 key id? | 10 HMAC? | 12 signature?

A scan gives the offset of each value in the packet by its `Place` (0: absent), or None for any packet that is not
plainly of this form. None says nothing about the packet: `judge`, which knows every clause, then decides. So a scan may
give up for any reason, but what it does accept must hold every rule of `codec` and `rules` except those that look into
values: UTF-8 and JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gateway.protocols.emm.frames import (
    HEADER_BYTES,
    MAX_FIELD_BYTES,
    MAX_PACKET_BYTES,
    VALUE_BYTES,
    VERSION,
    EventType,
    FieldType,
    Flag,
)


class Place(IntEnum):
    """In the order the fields have on the wire; each stands once at most."""

    NAME = 1
    DATA = 2
    NODE = 3
    SIGNED_AT = 4
    KEY_ID = 5
    HMAC = 6
    SIGNATURE = 7


Places = Sequence[int]

_PLACE_OF: dict[int, Place] = {
    FieldType.STRING: Place.NAME,  # the first; a second one is data
    FieldType.INTEGER: Place.DATA,
    FieldType.FLOAT: Place.DATA,
    FieldType.BINARY: Place.DATA,
    FieldType.JSON: Place.DATA,
    FieldType.NODE_ID: Place.NODE,
    FieldType.TIMESTAMP: Place.SIGNED_AT,
    FieldType.AUTH_KEY_ID: Place.KEY_ID,
    FieldType.HMAC: Place.HMAC,
    FieldType.SIGNATURE: Place.SIGNATURE,
}
_NO_PLACE = 0
_PLACES = bytes(_PLACE_OF.get(kind, _NO_PLACE) for kind in range(256))
_WIDTHS = bytes(VALUE_BYTES.get(kind, 0) for kind in range(256))  # 0: any
_COLUMNS = len(Place) + 1

LOCKSTEP_FROM = 150
"""Packets in a container from which numpy's fixed cost is worth it (tests/bench/emm_decode.py)."""


def scan(packets: Sequence[bytes]) -> list[Places | None]:
    """The places in each packet."""
    if len(packets) >= LOCKSTEP_FROM:
        return scan_lockstep(packets)
    return [scan_one(packet) for packet in packets]


def scan_one(packet: bytes) -> Places | None:
    try:
        return _walk(packet) if _has_common_header(packet) else None
    except IndexError:  # a field head beyond the end
        return None


def _has_common_header(packet: bytes) -> bool:
    size = len(packet)
    return (
        size <= MAX_PACKET_BYTES
        and packet[0] == VERSION
        and packet[5] <= Flag.URGENT
        and packet[6] == EventType.EVENT
        and packet[15] << 8 | packet[16] == size - HEADER_BYTES
    )


def _walk(packet: bytes) -> Places | None:
    places = [0] * _COLUMNS
    last, position, size = _NO_PLACE, HEADER_BYTES, len(packet)
    while position < size:
        kind, width = packet[position], packet[position + 1]
        place = _PLACES[kind]
        if place == last == Place.NAME:
            place = Place.DATA
        wanted = _WIDTHS[kind]
        # 255 bytes may go on in the next field, none at all is a question of its own
        if place <= last or (width != wanted if wanted else width == MAX_FIELD_BYTES):
            return None
        position += 2
        places[place] = position
        position += width
        last = place
    complete = position == size and last >= Place.HMAC and places[Place.NAME] and places[Place.NODE]
    return places if complete else None


def scan_lockstep(packets: Sequence[bytes]) -> list[Places | None]:
    """`scan_one` for all of them at once: each turn reads the next field of every packet."""
    places, complete = _walk_lockstep(packets)
    rows = places.tolist()
    return [row if good else None for row, good in zip(rows, complete.tolist(), strict=True)]


_PLACES_COLUMN = np.frombuffer(_PLACES, np.uint8)
_WIDTHS_COLUMN = np.frombuffer(_WIDTHS, np.uint8)
_PADDING = bytes(HEADER_BYTES + 2)  # a header or a field head is read whole before its packet's end is looked at


def _walk_lockstep(packets: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    octets = np.frombuffer(b"".join([*packets, _PADDING]), np.uint8)
    sizes = np.fromiter(map(len, packets), np.int64, len(packets))
    starts = np.cumsum(sizes) - sizes
    places = np.zeros((len(packets), _COLUMNS), np.int64)
    complete = np.zeros(len(packets), np.bool_)

    rows = np.flatnonzero(_have_common_headers(octets, starts, sizes))
    position, end = starts[rows] + HEADER_BYTES, starts[rows] + sizes[rows]
    last = np.zeros(len(rows), np.uint8)
    while len(rows):
        kind, width = octets[position], octets[position + 1]
        place = _PLACES_COLUMN[kind]
        place = np.where((place == Place.NAME) & (last == Place.NAME), np.uint8(Place.DATA), place)
        wanted = _WIDTHS_COLUMN[kind]
        good = (place > last) & np.where(wanted > 0, width == wanted, width < MAX_FIELD_BYTES)
        places[rows, place] = position + 2 - starts[rows]
        position = position + 2 + width
        complete[rows] = good & (position == end) & (place >= Place.HMAC)
        going = good & (position < end)
        rows, position, end, last = rows[going], position[going], end[going], place[going]
    complete &= (places[:, Place.NAME] > 0) & (places[:, Place.NODE] > 0)
    return places, complete


def _have_common_headers(
    octets: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    announced = octets[starts + 15].astype(np.int64) << 8 | octets[starts + 16]
    common: NDArray[np.bool_] = (
        (sizes > HEADER_BYTES)
        & (sizes <= MAX_PACKET_BYTES)
        & (octets[starts] == VERSION)
        & (octets[starts + 5] <= Flag.URGENT)
        & (octets[starts + 6] == EventType.EVENT)
        & (announced == sizes - HEADER_BYTES)
    )
    return common

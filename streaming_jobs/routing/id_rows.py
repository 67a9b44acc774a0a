"""The ids that a raw record has added, packed into the one value that Spark's state holds of them.

    u32 packets | u32 digests | u32 first second | u32 nodes | u8 bytes a second | u8 bytes a place      (little-endian)
    nodes | the packets' Message IDs | the packets' places among the nodes | digests | seconds after the first one

A packet's key is its node and its Message ID. A record has many packets of few nodes, received within a second or two:
so an id takes 6 bytes and its node 16 for all of them, not 24 for each. Spark copies this value, writes it twice, and
reads it when it lets old rows go and at each start: what is saved here is saved five times.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PACKET_KEY_BYTES, NODE_BYTES, DIGEST_BYTES = 20, 16, 12
_HEAD = struct.Struct("<IIIIBB")
_MESSAGE_ID_BYTES = PACKET_KEY_BYTES - NODE_BYTES
_SMALL = 256
"""Numbers below it take a byte."""
_DTYPES = {1: "u1", 4: "<u4"}
_U32, _U64 = np.uint32, np.uint64

Added = Sequence[tuple[bytes, int]]
"""Keys, each with the second at which it passed: of 20 bytes for a packet, of 12 for anything else."""


class IdColumns(NamedTuple):
    """The ids of many rows, first those of packets, then digests, each in the order of the rows."""

    nodes: list[bytes]
    """A node may stand here several times."""
    places: NDArray[np.uint32]
    """Each packet's place among the nodes."""
    message_ids: NDArray[np.uint64]
    packet_seconds: NDArray[np.uint32]
    digests: bytes
    digest_seconds: NDArray[np.uint32]


def pack_row(added: Added) -> bytes:
    """Returns the row; empty if nothing was added."""
    if not added:
        return b""
    keys, seconds = zip(*added, strict=True)
    joined, packets = b"".join(keys), len(keys)
    if len(joined) != PACKET_KEY_BYTES * packets:
        keys, seconds = zip(*sorted(added, key=_is_digest), strict=True)
        joined, packets = b"".join(keys), sum(len(key) == PACKET_KEY_BYTES for key in keys)
    first, last = min(seconds), max(seconds)
    nodes = [key[:NODE_BYTES] for key in keys[:packets]]
    place_of = {node: place for place, node in enumerate(dict.fromkeys(nodes))}
    seconds_width, places_width = _width(last - first), _width(len(place_of) - 1)
    later = [second - first for second in seconds] if first < last else [0] * len(seconds)
    packets_end = PACKET_KEY_BYTES * packets
    return b"".join(
        (
            _HEAD.pack(packets, len(keys) - packets, first, len(place_of), seconds_width, places_width),
            *place_of,
            np.frombuffer(joined, "<u4", packets_end // 4)[4::5].tobytes(),
            _packed(list(map(place_of.__getitem__, nodes)), places_width),
            joined[packets_end:],
            _packed(later, seconds_width),
        )
    )


def _is_digest(added: tuple[bytes, int]) -> bool:
    return len(added[0]) != PACKET_KEY_BYTES


def _width(greatest: int) -> int:
    """Returns how many bytes a number takes, if this is the greatest."""
    return 1 if greatest < _SMALL else 4


def _packed(numbers: list[int], width: int) -> bytes:
    return bytes(numbers) if width == 1 else np.array(numbers, _DTYPES[width]).tobytes()


def read_rows(rows: Sequence[bytes]) -> IdColumns:
    """Returns the ids of some rows. Raises ValueError or struct.error if one is damaged."""
    nodes: list[bytes] = []
    places, message_ids, seconds, digests, digest_seconds = [], [], [], [], []
    for row in rows:
        packets, digest_count, first, node_count, seconds_width, places_width = _HEAD.unpack_from(row)
        at = _HEAD.size + NODE_BYTES * node_count
        ids_end = at + _MESSAGE_ID_BYTES * packets
        digests_at = ids_end + places_width * packets
        seconds_at = digests_at + DIGEST_BYTES * digest_count
        is_whole = seconds_at + seconds_width * (packets + digest_count) == len(row)
        if not is_whole or {seconds_width, places_width} - _DTYPES.keys():
            raise ValueError("a row of message ids has another length than its head says")
        row_places = np.frombuffer(row, _DTYPES[places_width], packets, ids_end).astype(_U32)
        if packets and row_places.max() >= node_count:
            raise ValueError("a row of message ids has fewer nodes than its packets say")
        row_seconds = np.frombuffer(row, _DTYPES[seconds_width], packets + digest_count, seconds_at) + _U32(first)
        places.append(row_places + _U32(len(nodes)))
        message_ids.append(row[at:ids_end])
        seconds.append(row_seconds[:packets])
        digests.append(row[digests_at:seconds_at])
        digest_seconds.append(row_seconds[packets:])
        nodes += [row[node : node + NODE_BYTES] for node in range(_HEAD.size, at, NODE_BYTES)]
    return IdColumns(
        nodes,
        np.concatenate(places),
        np.frombuffer(b"".join(message_ids), ">u4").astype(_U64),
        np.concatenate(seconds),
        b"".join(digests),
        np.concatenate(digest_seconds),
    )

"""The layouts of common packets: where each part stands. A packet is read by the layout of one that was walked before.

Invariant: a layout is believed only where the packet is as long as the layout, and has the same octets wherever a walk
reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gateway.auth.keyring import KEY_ID_BYTES, NODE_BYTES
from gateway.auth.verification import HMAC_BYTES
from gateway.protocols.emm.frames import FLAGS_OFFSET, HEADER_BYTES, MESSAGE_ID_BYTES
from gateway.protocols.emm.scan import FieldPosition, Places, octets_read, walk

REPEAT_KEY_BYTES = NODE_BYTES + MESSAGE_ID_BYTES
TIMESTAMP_AT = 7
"""The place of the header's timestamp."""
LAYOUTS_KEPT = 8_192
"""At some hundred bytes each. Thirty sizes of bodies and twenty of names make six hundred layouts. Beyond so many all
go, and are found again by a walk each."""
MOST_OCTETS = 5 + 2 * 7
"""A walk reads five octets of the header and two of each field."""

_LENGTHS = slice(HEADER_BYTES - 2, HEADER_BYTES + 2)
"""Payload Length and the head of the first field: by them the layout of a packet is looked up."""
_MESSAGE_ID = range(1, 1 + MESSAGE_ID_BYTES)


class Layout(NamedTuple):
    """The places of a common packet's parts. Ends are exclusive; an absent part begins and ends at 0.

    Args:
        sender_end: of NODE ID, and of the Auth Key ID where that follows at once.
        key: where the Auth Key ID stands, if a field is between the two.
        traits: what else makes events differ: the type of the data field (0 for none), the flags, which tags there
            are, and how the key is named.
    """

    name_end: int
    node: int
    sender_end: int
    key: int
    key_end: int
    signed_end: int
    tag: int
    tag_end: int
    signature: int
    data: int
    data_end: int
    traits: bytes

    @classmethod
    def of(cls, packet: bytes, places: Places) -> Layout:
        _, name, data, node, _, key_id, tag, signature = places
        is_adjacent = key_id == node + NODE_BYTES + 2
        key = 0 if is_adjacent else key_id
        return cls(
            name_end=name + packet[name - 1],
            node=node,
            sender_end=key_id + KEY_ID_BYTES if is_adjacent else node + NODE_BYTES,
            key=key,
            key_end=key + KEY_ID_BYTES if key else 0,
            signed_end=(tag or signature) - 2,
            tag=tag,
            tag_end=tag + HMAC_BYTES if tag else 0,
            signature=signature,
            data=data,
            data_end=data + packet[data - 1] if data else 0,
            traits=bytes(
                (
                    packet[data - 2] if data else 0,
                    packet[FLAGS_OFFSET],
                    bool(tag) | bool(signature) << 1,
                    bool(key_id) | is_adjacent << 1,
                )
            ),
        )


_NO_LAYOUT = Layout(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes(4))


class Layouts:
    """The layouts that were seen. They have numbers, which are rows of the tables; row 0 fits no packet."""

    def __init__(self) -> None:
        self._positions = np.zeros((LAYOUTS_KEPT, MOST_OCTETS), np.int16)
        self._octets = np.zeros((LAYOUTS_KEPT, MOST_OCTETS), np.uint8)
        self._lengths = np.zeros(LAYOUTS_KEPT, np.uint32)
        self.claimed_at = np.zeros(LAYOUTS_KEPT, np.int64)
        """The place of the time by which freshness is judged."""
        self.keys_at = np.zeros((LAYOUTS_KEPT, REPEAT_KEY_BYTES), np.int16)
        """The places of the octets of the repeat key: NODE ID, then Message ID."""
        self._forget()

    def _forget(self) -> None:
        self._by_head: dict[bytes, int] = {}
        self._by_layout: dict[tuple[int, Layout, int], int] = {}
        self.layouts: list[Layout] = [_NO_LAYOUT]

    def numbers(
        self, frames: Sequence[bytes], starts: NDArray[np.int64], lengths: NDArray[np.uint32], octets: NDArray[np.uint8]
    ) -> NDArray[np.intp]:
        """Returns the number of each frame's layout; 0 where the frame is no common packet."""
        if len(self.layouts) == LAYOUTS_KEPT:
            self._forget()
        get = self._by_head.get
        numbers = np.array([get(frame[_LENGTHS], 0) for frame in frames], np.intp)
        read = octets.take(self._positions[numbers] + starts[:, None], mode="clip")
        fits = (read == self._octets[numbers]).all(1) & (self._lengths[numbers] == lengths)
        if not fits.all():
            for at in np.flatnonzero(~fits).tolist():
                numbers[at] = self._learn(frames[at])
        return numbers

    def _learn(self, packet: bytes) -> int:
        places = walk(packet)
        if places is None:
            return 0
        layout, claimed_at = Layout.of(packet, places), places[FieldPosition.SIGNED_AT] or TIMESTAMP_AT
        name = len(packet), layout, claimed_at
        number = self._by_layout.get(name, len(self.layouts))
        if number == LAYOUTS_KEPT:
            return 0
        if number == len(self.layouts):
            positions = (octets_read(places) * MOST_OCTETS)[:MOST_OCTETS]
            self._positions[number] = positions
            self._octets[number] = [packet[position] for position in positions]
            self._lengths[number] = len(packet)
            self.claimed_at[number] = claimed_at
            self.keys_at[number] = [*range(layout.node, layout.node + NODE_BYTES), *_MESSAGE_ID]
            self.layouts.append(layout)
            self._by_layout[name] = number
            self._by_head[packet[_LENGTHS]] = number
        return number

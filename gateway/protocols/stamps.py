"""Ids of a connection, written into a frame that was encoded for many."""

from __future__ import annotations

import struct


def stamped(frame: bytes, stamps: tuple[int, ...], form: struct.Struct, number: int) -> bytes:
    """Returns the frame with an id of this connection written at each stamp."""
    if not stamps:
        return frame
    written = bytearray(frame)
    for at in stamps:
        form.pack_into(written, at, number)
    return bytes(written)

"""Keeps what waits until a transport takes more: one block of bytes, of which it is handed a piece at a time.

Only what the system did not take waits in the transport. What waits longer waits here: from Python 3.12 on a transport
keeps each write by itself, and adds up their sizes at every further one. A peer that reads nothing and gets small
frames would so cost each frame ten milliseconds.
"""

from __future__ import annotations

import asyncio

PIECE_BYTES = 65_536


class Backlog:
    """`is_held`: the transport takes no more for now, as it has told its protocol."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self.is_held = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, data: bytes) -> None:
        self._waiting += data

    def hand_over(self, transport: asyncio.WriteTransport) -> None:
        """Hands over what waits, until the transport takes no more again."""
        self.is_held = False
        while self._waiting and not self.is_held:
            piece = bytes(self._waiting[:PIECE_BYTES])
            del self._waiting[:PIECE_BYTES]
            transport.write(piece)

    def take_all(self) -> bytes:
        taken = bytes(self._waiting)
        self._waiting.clear()
        return taken

    def clear(self) -> None:
        self._waiting.clear()

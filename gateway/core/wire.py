"""Big-endian reading and writing: the only place where bytes are counted by hand.

A `WireReader` fails with `Rejected(truncated)` when a field runs past its end; `finish` fails when something is left.
"""

from __future__ import annotations

import struct

from gateway.core.reasons import Reason, Rejected

U8 = struct.Struct(">B")
U16 = struct.Struct(">H")
U32 = struct.Struct(">I")
U64 = struct.Struct(">Q")
I32 = struct.Struct(">i")
F32 = struct.Struct(">f")


class WireReader:
    """A cursor over bytes that stay where they are."""

    __slots__ = ("_data", "_end", "pos")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.pos = 0
        self._end = len(data)

    @property
    def remaining(self) -> int:
        return self._end - self.pos

    def _advance(self, size: int) -> int:
        start = self.pos
        if size > self._end - start:
            raise Rejected(Reason.TRUNCATED, f"{size} bytes wanted, {self._end - start} left", can_continue=False)
        self.pos = start + size
        return start

    def u8(self) -> int:
        return self._data[self._advance(1)]

    def u16(self) -> int:
        value: int = U16.unpack_from(self._data, self._advance(2))[0]
        return value

    def u32(self) -> int:
        value: int = U32.unpack_from(self._data, self._advance(4))[0]
        return value

    def u64(self) -> int:
        value: int = U64.unpack_from(self._data, self._advance(8))[0]
        return value

    def take(self, size: int) -> bytes:
        start = self._advance(size)
        return bytes(self._data[start : self.pos])

    def rest(self) -> bytes:
        return self.take(self.remaining)

    def text8(self) -> str:
        """Reads UTF-8 behind a one-byte length."""
        return decode_utf8(self.take(self.u8()))

    def text16(self) -> str:
        """Reads UTF-8 behind a two-byte length."""
        return decode_utf8(self.take(self.u16()))

    def finish(self) -> None:
        if self.remaining:
            raise Rejected(Reason.MALFORMED, f"{self.remaining} bytes too many", can_continue=False)


def decode_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Rejected(Reason.BAD_ENCODING, "not UTF-8", can_continue=False) from None


def text8(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0xFF:
        raise Rejected(Reason.TOO_LARGE, "a name of more than 255 bytes")
    return U8.pack(len(data)) + data


def text16(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0xFFFF:
        raise Rejected(Reason.TOO_LARGE, "a text of more than 65535 bytes")
    return U16.pack(len(data)) + data

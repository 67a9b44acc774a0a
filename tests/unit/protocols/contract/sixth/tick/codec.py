"""Frames of tick from bytes and to bytes."""

from __future__ import annotations

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U16, U32, WireReader, text8

from .frames import KINDS, Frame


def split(buffer: bytes | bytearray, pos: int, limit: int) -> int:
    """Returns how long the frame at `pos` is; 0 if it is not whole."""
    if len(buffer) - pos < U16.size:
        return 0
    size: int = U16.unpack_from(buffer, pos)[0] + U16.size
    if size > limit:
        raise Rejected(Reason.TOO_LARGE, f"a frame of {size} bytes", can_continue=False)
    return size if size <= len(buffer) - pos else 0


def decode(data: bytes) -> Frame:
    reader = WireReader(data)
    reader.u16()
    kind, number, subject = reader.u8(), reader.u32(), reader.text8()
    if kind >= len(KINDS):
        raise Rejected(Reason.UNKNOWN_TYPE, f"kind {kind}", can_continue=False)
    return Frame(KINDS[kind], number, subject, reader.rest())


def encode(frame: Frame) -> bytes:
    rest = U8.pack(KINDS.index(frame.kind)) + U32.pack(frame.id) + text8(frame.subject) + frame.body
    if len(rest) > 0xFFFF:
        raise Rejected(Reason.TOO_LARGE, f"a frame of {len(rest)} bytes")
    return U16.pack(len(rest)) + rest

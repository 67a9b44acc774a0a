"""Messages of emp from bytes and to bytes, one at a time and without state.

>>> decode(bytes.fromhex("0000000b05000000010203"))
Message(type=5, body=b'\\x01\\x02\\x03', blocks=())
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U32, WireReader, text16
from gateway.protocols.emp.frames import (
    FLAG,
    HEAD_BYTES,
    VERSION,
    BadExtension,
    Block,
    Extension,
    ExtensionErrorCode,
    Failure,
    Message,
    MessageType,
    is_known,
)

MAX_BLOCKS = len(Extension)
"""No extension may come twice; the text sets no limit."""

MAX_SIGHT_BYTES = 512
"""Longer blocks are not known by sight. Subjects of the mesh have at most 255 bytes, content types fewer."""

_UNUSED = bytes(3)


def split(buffer: bytes | bytearray, pos: int, limit: int) -> int:
    """Returns the length of the message at `pos`; 0 if it is not whole yet. Raises Rejected if it cannot become one."""
    available = len(buffer) - pos
    if available < U32.size:
        return 0
    size: int = U32.unpack_from(buffer, pos)[0]
    check_size(size, limit)
    return size if available >= size else 0


def check_size(size: int, limit: int) -> None:
    if size < HEAD_BYTES:
        raise Rejected(Reason.MALFORMED, f"a message of {size} bytes: the head alone has 8", can_continue=False)
    if size > limit:
        raise Rejected(Reason.TOO_LARGE, f"a message of {size} bytes, the limit is {limit}", can_continue=False)


def decode(data: bytes) -> Message:
    """Returns the message that is exactly these bytes."""
    reader = WireReader(data)
    if reader.u32() != len(data):
        raise Rejected(Reason.MALFORMED, "the size is not that of the message", can_continue=False)
    type_, flags = reader.u8(), reader.u8()
    reader.u16()
    if not is_known(type_):
        raise Rejected(Reason.UNKNOWN_TYPE, f"message type {type_}", can_continue=False)
    blocks = tuple(_blocks(reader)) if flags & FLAG else ()
    return Message(type_, reader.rest(), blocks)


def first_block(buffer: bytes | bytearray, pos: int, size: int) -> bytes:
    """Returns the first block of the message at `pos`, head and M bit included; empty if it is long or broken."""
    if size < 2 * HEAD_BYTES:
        return b""
    length: int = U32.unpack_from(buffer, pos + HEAD_BYTES)[0]
    if length > min(size - HEAD_BYTES, MAX_SIGHT_BYTES):
        return b""
    return bytes(memoryview(buffer)[pos + HEAD_BYTES : pos + HEAD_BYTES + length])


def _blocks(reader: WireReader) -> Iterator[Block]:
    if reader.remaining < HEAD_BYTES:
        raise Rejected(Reason.MALFORMED, "the E bit without a block", can_continue=False)
    more, count, extension = FLAG, 0, 0
    while more:
        count += 1
        if reader.remaining < HEAD_BYTES or count > MAX_BLOCKS:
            raise _broken(extension, "the M bit without a block, or too many")
        size, extension, more = reader.u32(), reader.u8(), reader.u8() & FLAG
        reader.u16()
        if not HEAD_BYTES <= size <= HEAD_BYTES + reader.remaining:
            raise _broken(extension, f"a block of {size} bytes")
        yield Block(extension, reader.take(size - HEAD_BYTES))


def _broken(extension: int, detail: str) -> BadExtension:
    return BadExtension(Reason.MALFORMED, detail, extension, ExtensionErrorCode.BROKEN_BLOCK)


def encode(message: Message) -> bytes:
    last = len(message.blocks) - 1
    blocks = b"".join(
        _sized(block.extension, index < last, block.content) for index, block in enumerate(message.blocks)
    )
    return _sized(message.type, bool(message.blocks), blocks + message.body)


def _sized(kind: int, flag: bool, content: bytes) -> bytes:
    """A message and a block have one form."""
    return U32.pack(HEAD_BYTES + len(content)) + U8.pack(kind) + U8.pack(FLAG if flag else 0) + bytes(2) + content


# -- bodies of messages that the protocol itself defines ------------------------------------------------------------


def decode_hello(body: bytes) -> int:
    """Returns the highest version that the peer speaks."""
    if len(body) != U32.size:
        raise Rejected(Reason.MALFORMED, f"a hello with a body of {len(body)} bytes, not 4", can_continue=False)
    return body[0]


def encode_hello(version: int = VERSION) -> bytes:
    return encode(Message(MessageType.HELLO, U8.pack(version) + _UNUSED))


def decode_error(body: bytes) -> Failure:
    reader = WireReader(body)
    code, extension, extension_code, _ = reader.u8(), reader.u8(), reader.u8(), reader.u8()
    text = reader.text16()
    reader.finish()
    return Failure(code, text, extension, extension_code)


def encode_error(failure: Failure) -> bytes:
    head = bytes((failure.code, failure.extension, failure.extension_code, 0))
    return encode(Message(MessageType.ERROR, head + text16(failure.text)))

"""The messages of emp, as bytes. Integers are unsigned and big-endian; every size counts its own four bytes.

    message   size u32 | type u8 | E....... | unused u16 | blocks, if E | body
    block     size u32 | extension u8 | M....... | unused u16 | content          M: another block follows

    hello     version u8 | unused u24
    error     code u8 | extension u8 | extension code u8 | unused u8 | text16
    request-response block (0)   R....... | unused u24 | request id u64          R: a request, else a response
    compression block (1)        scheme u8 | unused u24
    mesh envelope block (128)    the envelope's head; the body is the message's

Unused bits are sent as 0 and ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gateway.core.reasons import Reason, Rejected

VERSION = 1
HEAD_BYTES = 8
"""The size of the head of a message and of a block."""

TYPE_OFFSET = 4
"""The offset of a message's type, and of a block's extension id."""

FLAG = 0x80
"""E, M and R are each the top bit of their byte."""

FIRST_APPLICATION_TYPE = 128
"""Types from here to 255 are the application's, and carry a body as data does."""


class MessageType(IntEnum):
    HELLO = 0
    BYE = 1
    PING = 2
    PONG = 3
    ERROR = 4
    DATA = 5


class Extension(IntEnum):
    """The text names the first two without giving compression a number; the envelope is the mesh's own."""

    REQUEST_RESPONSE = 0
    COMPRESSION = 1
    MESH_ENVELOPE = 128


class Scheme(IntEnum):
    IDENTITY = 0
    GZIP = 1


class EmpErrorCode(IntEnum):
    UNSPECIFIED = 0
    IO = 1
    TIMEOUT = 2
    PROTOCOL = 3
    EXTENSION = 4


class ExtensionErrorCode(IntEnum):
    """Our error codes for every extension. The text leaves them to each."""

    UNSUPPORTED = 1
    BROKEN_BLOCK = 2
    BAD_BODY = 3


class BadExtension(Rejected):
    """An invalid extension block: error 4, with the extension's id."""

    def __init__(self, reason: Reason, detail: str, extension: int, code: ExtensionErrorCode) -> None:
        super().__init__(reason, detail, can_continue=False)
        self.extension = extension
        self.code = code


@dataclass(frozen=True, slots=True)
class Block:
    extension: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `body` is as it stands on the wire: compressed, if a block says so."""

    type: int
    body: bytes = b""
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """The body of an error message."""

    code: int
    text: str
    extension: int = 0
    extension_code: int = 0


@dataclass(frozen=True, slots=True)
class RequestMark:
    """The content of a request-response block."""

    id: int
    asks: bool


def is_known(type_: int) -> bool:
    return type_ <= MessageType.DATA or type_ >= FIRST_APPLICATION_TYPE


def carries_data(type_: int) -> bool:
    return type_ == MessageType.DATA or type_ >= FIRST_APPLICATION_TYPE

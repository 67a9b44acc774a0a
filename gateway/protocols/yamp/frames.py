"""The nine frames of yamp 1.0. Numbers are big-endian; `s8 x` is a one-byte size and as many bytes.

00 handshake       u16 version | s8 serializer
01 ping            s8 payload
02 pong            s8 payload
03 close           s16 reason
04 close-redirect  s16 url
05 event           16 uid | s8 uri | s32 body
06 request         16 uid | s8 uri | bool progressive | s32 body
07 cancel          16 uid | s8 uri | 16 request uid | bool kill
08 response        16 uid | s8 uri | 16 request uid | u8 type | s32 body
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import ClassVar

from gateway.core.content import JSON, MSGPACK

VERSION = 1
UID_BYTES = 16
MAX_URI_BYTES = 0xFF
MAX_REASON_BYTES = 0xFFFF


class FrameType(IntEnum):
    HANDSHAKE = 0
    PING = 1
    PONG = 2
    CLOSE = 3
    CLOSE_REDIRECT = 4
    EVENT = 5
    REQUEST = 6
    CANCEL = 7
    RESPONSE = 8


class ResponseType(IntEnum):
    DONE = 0
    ERROR = 1
    PROGRESS = 2
    CANCELLED = 3

    @property
    def is_final(self) -> bool:
        return self is not ResponseType.PROGRESS


class Format(StrEnum):
    """A serializer, by the name it has in the handshake."""

    JSON = "json"
    MSGPACK = "msgpack"

    @property
    def content_type(self) -> str:
        return _CONTENT_TYPES[self]


_CONTENT_TYPES = {Format.JSON: JSON, Format.MSGPACK: MSGPACK}


@dataclass(frozen=True, slots=True)
class Handshake:
    type: ClassVar[FrameType] = FrameType.HANDSHAKE
    serializer: str
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Ping:
    type: ClassVar[FrameType] = FrameType.PING
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Pong:
    type: ClassVar[FrameType] = FrameType.PONG
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class Close:
    type: ClassVar[FrameType] = FrameType.CLOSE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CloseRedirect:
    type: ClassVar[FrameType] = FrameType.CLOSE_REDIRECT
    url: str


@dataclass(frozen=True, slots=True)
class UserEvent:
    type: ClassVar[FrameType] = FrameType.EVENT
    uid: bytes
    uri: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `progressive` means that the requester wants to hear of progress."""

    type: ClassVar[FrameType] = FrameType.REQUEST
    uid: bytes
    uri: str
    body: bytes = b""
    progressive: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancel. `kill` means that the requester is no longer interested and wants no answer at all."""

    type: ClassVar[FrameType] = FrameType.CANCEL
    uid: bytes
    uri: str
    request_uid: bytes
    kill: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    type: ClassVar[FrameType] = FrameType.RESPONSE
    uid: bytes
    uri: str
    request_uid: bytes
    outcome: ResponseType = ResponseType.DONE
    body: bytes = b""


SystemFrame = Handshake | Ping | Pong | Close | CloseRedirect
UserFrame = UserEvent | Request | Cancel | Response
Frame = SystemFrame | UserFrame

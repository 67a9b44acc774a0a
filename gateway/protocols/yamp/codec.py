"""Frames of yamp as bytes: where they end, what they say, and how they are written."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U16, U32, WireReader, decode_utf8, text8, text16
from gateway.protocols.yamp.frames import (
    MAX_REASON_BYTES,
    UID_BYTES,
    Cancel,
    Close,
    CloseRedirect,
    Frame,
    Handshake,
    Ping,
    Pong,
    Request,
    Response,
    ResponseType,
    UserEvent,
)

REQUEST_UID_AFTER_URI = 2 + UID_BYTES
"""Where the request's uid stands in a cancel, but for the length of the uri: after type, uid and the uri's size."""

_UID_AND_URI = (1 + UID_BYTES, 1)
_LAYOUTS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((3, 1),),
    ((1, 1),),
    ((1, 1),),
    ((1, 2),),
    ((1, 2),),
    (_UID_AND_URI, (0, 4)),
    (_UID_AND_URI, (1, 4)),
    (_UID_AND_URI, (UID_BYTES + 1, 0)),
    (_UID_AND_URI, (UID_BYTES + 1, 4)),
)
"""By frame type, once for each pair: that many fixed bytes, then a size of that many bytes and what it counts."""


def split(buffer: bytearray | bytes, limit: int, start: int = 0) -> tuple[list[int], Rejected | None]:
    """Returns the lengths of the whole frames from `start` on, and what is wrong with the bytes after them."""
    lengths: list[int] = []
    pos = start
    while pos < len(buffer):
        try:
            length = frame_length(buffer, pos, limit)
        except Rejected as refused:
            return lengths, refused
        if length is None or length > len(buffer) - pos:
            break
        lengths.append(length)
        pos += length
    return lengths, None


def frame_length(buffer: bytearray | bytes, pos: int, limit: int) -> int | None:
    """Returns the length of the frame at `pos`, once its sizes have come. Raises Rejected(unknown_type, too_large)."""
    kind = buffer[pos]
    if kind >= len(_LAYOUTS):
        raise Rejected(Reason.UNKNOWN_TYPE, f"unknown frame type {kind:#04x}", can_continue=False)
    end = pos
    for fixed, width in _LAYOUTS[kind]:
        end += fixed + width
        if end > len(buffer):
            return None
        end += int.from_bytes(buffer[end - width : end])
        if end - pos > limit:
            raise Rejected(Reason.TOO_LARGE, f"a frame of {end - pos} bytes, at most {limit}", can_continue=False)
    return end - pos


def decode(data: bytes) -> Frame:
    """Returns the frame that these bytes are, all of them. Raises Rejected."""
    reader = WireReader(data)
    kind = reader.u8()
    if kind >= len(_READERS):
        raise Rejected(Reason.UNKNOWN_TYPE, f"unknown frame type {kind:#04x}", can_continue=False)
    frame = _READERS[kind](reader)
    reader.finish()
    return frame


def encode(frame: Frame) -> bytes:
    """Raises Rejected(too_large) where a name or a text does not fit its size field."""
    return U8.pack(frame.type) + _fields(frame)


def _fields(frame: Frame) -> bytes:
    match frame:
        case Handshake():
            return U16.pack(frame.version) + text8(frame.serializer)
        case Ping(payload) | Pong(payload):
            return U8.pack(len(payload)) + payload
        case Close(reason):
            return text16(reason)
        case CloseRedirect(url):
            return text16(url)
        case UserEvent():
            return frame.uid + text8(frame.uri) + _sized(frame.body)
        case Request():
            return frame.uid + text8(frame.uri) + U8.pack(frame.progressive) + _sized(frame.body)
        case Cancel():
            return frame.uid + text8(frame.uri) + frame.request_uid + U8.pack(frame.kill)
        case Response():
            head = frame.uid + text8(frame.uri) + frame.request_uid
            return head + U8.pack(frame.outcome) + _sized(frame.body)


def uid_of(frame: bytes) -> bytes:
    """Returns the uid of a user frame."""
    return frame[1 : 1 + UID_BYTES]


def with_uid_at(frame: bytes, stamps: tuple[int, ...], uid: bytes) -> bytes:
    """Returns the frame with a uid of this connection written at each stamp."""
    for at in stamps:
        frame = frame[:at] + uid + frame[at + UID_BYTES :]
    return frame


def is_kill(cancel: bytes) -> bool:
    """Returns True if a cancel frame ends with its flag set."""
    return cancel.endswith(b"\x01")


def shortened(reason: str) -> str:
    """Returns a close frame's reason that fits its size field, cut between characters."""
    return reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")


def _sized(body: bytes) -> bytes:
    return U32.pack(len(body)) + body


def _read_handshake(reader: WireReader) -> Handshake:
    version = reader.u16()
    return Handshake(_text("serializer", reader.take(reader.u8())), version)


def _read_event(reader: WireReader) -> UserEvent:
    return UserEvent(*_uid_and_uri(reader, "an event"), _body(reader))


def _read_request(reader: WireReader) -> Request:
    uid, uri = _uid_and_uri(reader, "a request")
    progressive = _boolean(reader, "progressive")
    return Request(uid, uri, _body(reader), progressive)


def _read_cancel(reader: WireReader) -> Cancel:
    return Cancel(reader.take(UID_BYTES), _uri(reader), reader.take(UID_BYTES), _boolean(reader, "kill"))


def _read_response(reader: WireReader) -> Response:
    uid, uri, request_uid, outcome = reader.take(UID_BYTES), _uri(reader), reader.take(UID_BYTES), reader.u8()
    if outcome >= len(ResponseType):
        raise Rejected(Reason.UNKNOWN_TYPE, f"unknown response type {outcome:#04x}", can_continue=False)
    return Response(uid, uri, request_uid, ResponseType(outcome), _body(reader))


_READERS: tuple[Callable[[WireReader], Frame], ...] = (
    _read_handshake,
    lambda reader: Ping(reader.take(reader.u8())),
    lambda reader: Pong(reader.take(reader.u8())),
    lambda reader: Close(_text("reason", reader.take(reader.u16()))),
    lambda reader: CloseRedirect(_text("url", reader.take(reader.u16()))),
    _read_event,
    _read_request,
    _read_cancel,
    _read_response,
)


def _uid_and_uri(reader: WireReader, frame_name: str) -> tuple[bytes, str]:
    """An answer or a cancel is found by the request's uid alone, but these have nothing else to go by."""
    uid, uri = reader.take(UID_BYTES), _uri(reader)
    if not uri:
        raise Rejected(Reason.MISSING_FIELD, f"{frame_name} without a uri", can_continue=False)
    return uid, uri


def _uri(reader: WireReader) -> str:
    return _text("uri", reader.take(reader.u8()))


def _body(reader: WireReader) -> bytes:
    return reader.take(reader.u32())


def _boolean(reader: WireReader, name: str) -> bool:
    value = reader.u8()
    if value > 1:
        raise Rejected(Reason.MALFORMED, f"{name} is {value:#04x}, neither 00 nor 01", can_continue=False)
    return value == 1


def _text(name: str, data: bytes) -> str:
    try:
        return decode_utf8(data)
    except Rejected as refused:
        raise Rejected(refused.reason, f"a {name} that is not UTF-8", can_continue=False) from None

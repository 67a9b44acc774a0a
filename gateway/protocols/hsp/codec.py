"""Frames of hsp from bytes and to bytes, one at a time and without state.

`HspSession` splits a busy stream by a loop of its own; a test holds the two equal.

>>> decode(bytes.fromhex("00009900000003") + b"xyz")
Frame(command=<Command.DATA: 0>, message_id=0, type=153, payload=b'xyz')
"""

from __future__ import annotations

import re

from gateway.core.envelope import MAX_CONTENT_TYPE_BYTES, Envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U16, U32, WireReader
from gateway.protocols.hsp.frames import DATA_ACK_HEAD_BYTES, DATA_HEAD_BYTES, Command, Frame

_SHORTEST_ENVELOPE_BYTES = 16
_SUBJECT_OFFSET = 14
_EVENT_HEAD = Envelope(Kind.EVENT, 0, "").encode()[: _SUBJECT_OFFSET - U16.size]
_PLAIN_SUBJECT = re.compile(rb"[!-)+-=?-~]{1,31}")
"""`subjects.check_subject` takes it: ASCII without spaces and wildcards, too short for more than 32 tokens."""
_u16 = U16.unpack_from

_COMMANDS = tuple(Command)
_HEAD_BYTES = {
    Command.DATA: DATA_HEAD_BYTES,
    Command.DATA_ACK: DATA_ACK_HEAD_BYTES,
    Command.ACK: 5,
    Command.PING: 1,
    Command.PONG: 1,
    Command.ERROR: DATA_ACK_HEAD_BYTES,
    Command.ERROR_UNDEF: 5,
}


def split(buffer: bytes | bytearray, pos: int, payload_limit: int) -> int:
    """Returns the length of the frame at `pos`; 0 if it is not whole yet. Raises Rejected once it cannot become one."""
    available = len(buffer) - pos
    if available < 1:
        return 0
    command = command_of(buffer[pos])
    size = _HEAD_BYTES[command]
    if available < size:
        return 0
    if command.has_payload:
        length: int = U32.unpack_from(buffer, pos + size - U32.size)[0]
        if length > payload_limit:
            raise too_large(length, payload_limit)
        size += length
    return size if available >= size else 0


def decode(data: bytes) -> Frame:
    """Returns the frame that is exactly these bytes."""
    reader = WireReader(data)
    command = command_of(reader.u8())
    message_id = reader.u32() if command.has_message_id else 0
    type_, payload = 0, b""
    if command.has_payload:
        type_ = reader.u16()
        payload = reader.take(reader.u32())
    reader.finish()
    return Frame(command, message_id, type_, payload)


def encode(frame: Frame) -> bytes:
    data = U8.pack(frame.command)
    if frame.command.has_message_id:
        data += U32.pack(frame.message_id)
    if frame.command.has_payload:
        data += U16.pack(frame.type) + U32.pack(len(frame.payload)) + frame.payload
    return data


def is_plain_event(buffer: bytearray, at: int, end: int) -> bool:
    """Returns True if the payload surely is an event that `envelope.decode` takes, and not one under `mesh`.

    Its ACK may then leave without another look. It may return False for a plain event.
    """
    subject = at + _SUBJECT_OFFSET
    if end - at < _SHORTEST_ENVELOPE_BYTES or buffer[at : subject - U16.size] != _EVENT_HEAD:
        return False
    subject_end: int = subject + _u16(buffer, subject - U16.size)[0]
    if not subject < subject_end <= end - U16.size:
        return False
    content_type_bytes: int = _u16(buffer, subject_end)[0]
    head_end = subject_end + U16.size + content_type_bytes
    if content_type_bytes > MAX_CONTENT_TYPE_BYTES or head_end > end:
        return False
    if not _PLAIN_SUBJECT.fullmatch(buffer, subject, subject_end):
        return False
    return buffer[subject_end:head_end].isascii() and buffer[subject : subject + 4].lower() != b"mesh"


def command_of(value: int) -> Command:
    if value >= len(_COMMANDS):
        raise Rejected(Reason.UNKNOWN_TYPE, f"command {value}", can_continue=False)
    return _COMMANDS[value]


def too_large(length: int, limit: int) -> Rejected:
    return Rejected(Reason.TOO_LARGE, f"a payload of {length} bytes, the limit is {limit}", can_continue=False)

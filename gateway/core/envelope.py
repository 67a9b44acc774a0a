"""The mesh envelope: a name and a kind for the two protocols whose frames carry none (emp and hsp).

    u8 version=1 | u8 kind | u16 flags=0 | u64 correlation | u16 n, subject | u16 n, content type | body

`correlation` is 0 for events, else chosen by the requester and unique among its open requests.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import WireReader, text16

VERSION = 1
_HEAD = struct.Struct(">BBHQ")
MAX_CONTENT_TYPE_BYTES = 1_024
"""The two names of a media type have at most 127 bytes each (RFC 6838), and a link adds a hundred bytes of parameters.
The router remembers thousands of content types, so their size has a bound."""
CORRELATION_OFFSET = 4  # where a session stamps its own id, counted from the envelope's start
KINDS = (Kind.EVENT, Kind.REQUEST, Kind.RESPONSE, Kind.PROGRESS, Kind.ERROR, Kind.CANCELLED, Kind.CANCEL)
_CODES = {kind: code for code, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class Envelope:
    kind: Kind
    correlation: int
    subject: str
    content_type: str = ""

    def encode(self) -> bytes:
        """Returns the head. The body follows it (hsp) or is the frame's own (emp).

        Raises Rejected for a content type that no mesh at the other end of a link would take.
        """
        check_content_type(self.content_type)
        return (
            _HEAD.pack(VERSION, _CODES[self.kind], 0, self.correlation)
            + text16(self.subject)
            + text16(self.content_type)
        )


def decode(data: bytes) -> tuple[Envelope, bytes]:
    """Returns the envelope and what follows it. Unknown flags are refused: they would mean something we do not do."""
    reader = WireReader(data)
    version, kind, flags, correlation = reader.u8(), reader.u8(), reader.u16(), reader.u64()
    if version != VERSION:
        raise Rejected(Reason.UNSUPPORTED_VERSION, f"envelope version {version}")
    if kind >= len(KINDS):
        raise Rejected(Reason.UNKNOWN_TYPE, f"envelope kind {kind}")
    if flags:
        raise Rejected(Reason.RESERVED_FLAGS, f"envelope flags {flags:#06x}")
    subject, content_type = reader.text16(), reader.text16()
    check_content_type(content_type)
    if not subject and not KINDS[kind].answers:
        raise Rejected(Reason.MISSING_FIELD, "an envelope without a subject")
    if (correlation == 0) != (kind == 0):
        raise Rejected(Reason.MALFORMED, "the correlation is 0 for events and for nothing else")
    return Envelope(KINDS[kind], correlation, subject, content_type), reader.rest()


def check_content_type(content_type: str) -> None:
    """Raises Rejected(too_large) for a content type that is too long for an envelope."""
    if len(content_type.encode()) > MAX_CONTENT_TYPE_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"a content type has at most {MAX_CONTENT_TYPE_BYTES} bytes")

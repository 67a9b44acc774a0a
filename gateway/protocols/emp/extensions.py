"""Reads what a message's extension blocks say together, and what they do to its body.

    on the wire                            | kind
    -------------------------------------- | ------------------------
    no block, or compression alone         | event
    request-response, R=1                  | request
    request-response, R=0                  | response
    envelope (kind 0)                      | event
    envelope (kind 1) + R=1, same id       | request
    envelope (kinds 2, 4, 5) + R=0, same id| response, error, cancelled
    envelope (kinds 3, 6)                  | progress, cancel

Blocks are undone from the last to the first. Anything else that a block says is an error of that extension, and so is a
block of an extension that the message has already: a few bytes could else be compressed a thousand times over.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from gateway.core.envelope import Envelope
from gateway.core.envelope import decode as decode_envelope
from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U64
from gateway.protocols.emp.frames import (
    FLAG,
    BadExtension,
    Block,
    Extension,
    ExtensionErrorCode,
    Message,
    RequestMark,
    Scheme,
    carries_data,
)

MAX_GZIP_MEMBERS = 16
"""RFC 1952 lets a body be a series of members; a writer makes one. Each costs a copy of what follows it."""

_GZIP_WINDOW = 31
_REQUEST_CONTENT_BYTES = 12
_COMPRESSION_CONTENT_BYTES = 4
REQUEST_ID_OFFSET = 4
"""The offset of the request id in its block's content."""


@dataclass(frozen=True, slots=True)
class EmpContent:
    """A message that carries data, understood. `request_id` is 0 where there is none."""

    kind: Kind
    body: bytes
    request_id: int = 0
    envelope: Envelope | None = None
    compressed: bool = False


def understand(message: Message, uncompressed_limit: int) -> EmpContent:
    """Raises BadExtension, or Rejected where the text calls it an error of the protocol."""
    mark: RequestMark | None = None
    envelope: Envelope | None = None
    scheme: Scheme | None = None
    body = message.body
    for block in reversed(message.blocks):
        if not carries_data(message.type):
            raise _bad(Reason.MALFORMED, "on a message that carries no data", block)
        match block.extension:
            case Extension.REQUEST_RESPONSE if mark is None:
                mark = _request_mark(block)
            case Extension.COMPRESSION if scheme is None:
                scheme = _scheme(block)
                if scheme is Scheme.GZIP:
                    body = inflate(body, uncompressed_limit)
            case Extension.MESH_ENVELOPE if envelope is None:
                envelope = _envelope(block)
            case Extension.REQUEST_RESPONSE | Extension.COMPRESSION | Extension.MESH_ENVELOPE:
                raise _bad(Reason.MALFORMED, "more than once", block)
            case _:
                raise _bad(Reason.UNKNOWN_TYPE, "unknown", block, ExtensionErrorCode.UNSUPPORTED)
    kind, request_id = _kind(mark, envelope)
    return EmpContent(kind, body, request_id, envelope, scheme is Scheme.GZIP)


def _kind(mark: RequestMark | None, envelope: Envelope | None) -> tuple[Kind, int]:
    if envelope is None:
        if mark is None:
            return Kind.EVENT, 0
        return (Kind.REQUEST if mark.asks else Kind.RESPONSE), mark.id
    asks = envelope.kind is Kind.REQUEST
    expected = RequestMark(envelope.correlation, asks) if asks or envelope.kind.ends_request else None
    if mark != expected:
        raise BadExtension(
            Reason.MALFORMED,
            "the envelope's kind and correlation do not go with the request-response block",
            Extension.MESH_ENVELOPE,
            ExtensionErrorCode.BROKEN_BLOCK,
        )
    return envelope.kind, envelope.correlation


def _request_mark(block: Block) -> RequestMark:
    if len(block.content) != _REQUEST_CONTENT_BYTES:
        raise _bad(Reason.MALFORMED, f"a content of {len(block.content)} bytes", block)
    request_id: int = U64.unpack_from(block.content, REQUEST_ID_OFFSET)[0]
    if request_id == 0:
        # The text reserves 0 in the message flow, not in the block: a protocol error, not the extension's.
        raise Rejected(Reason.MALFORMED, "request id 0 is reserved", can_continue=False)
    return RequestMark(request_id, bool(block.content[0] & FLAG))


def _scheme(block: Block) -> Scheme:
    if len(block.content) != _COMPRESSION_CONTENT_BYTES:
        raise _bad(Reason.MALFORMED, f"a content of {len(block.content)} bytes", block)
    if block.content[0] > Scheme.GZIP:
        raise _bad(Reason.UNKNOWN_TYPE, f"scheme {block.content[0]} is unknown", block, ExtensionErrorCode.UNSUPPORTED)
    return Scheme(block.content[0])


def _envelope(block: Block) -> Envelope:
    try:
        envelope, rest = decode_envelope(block.content)
    except Rejected as refused:
        raise _bad(refused.reason, refused.detail, block) from None
    if rest:
        raise _bad(Reason.MALFORMED, f"{len(rest)} bytes behind the envelope's head", block)
    return envelope


def _bad(
    reason: Reason, detail: str, block: Block, code: ExtensionErrorCode = ExtensionErrorCode.BROKEN_BLOCK
) -> BadExtension:
    return BadExtension(reason, f"extension {block.extension}: {detail}", block.extension, code)


def request_block(mark: RequestMark) -> Block:
    return Block(Extension.REQUEST_RESPONSE, U8.pack(FLAG if mark.asks else 0) + bytes(3) + U64.pack(mark.id))


def compression_block(scheme: Scheme) -> Block:
    return Block(Extension.COMPRESSION, U8.pack(scheme) + bytes(3))


def envelope_block(envelope: Envelope) -> Block:
    return Block(Extension.MESH_ENVELOPE, envelope.encode())


def deflate(body: bytes) -> bytes:
    return zlib.compress(body, wbits=_GZIP_WINDOW)


def inflate(data: bytes, limit: int) -> bytes:
    """Returns the bytes in a gzip body. Never more than one byte beyond the limit is made of it."""
    parts: list[bytes] = []
    for _ in range(MAX_GZIP_MEMBERS):
        part, data = _inflate_member(data, limit)
        parts.append(part)
        limit -= len(part)
        if limit < 0:
            raise _bad_body(Reason.BOMB, "more than is allowed after decompression")
        if not data:
            return b"".join(parts)
    raise _bad_body(Reason.MALFORMED, f"more than {MAX_GZIP_MEMBERS} gzip members")


def _inflate_member(data: bytes, limit: int) -> tuple[bytes, bytes]:
    member = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        part = member.decompress(data, limit + 1)
    except zlib.error:
        raise _bad_body(Reason.MALFORMED, "a body that is not gzip") from None
    if not member.eof and len(part) <= limit:
        raise _bad_body(Reason.TRUNCATED, "a gzip body that does not end")
    return part, member.unused_data


def _bad_body(reason: Reason, detail: str) -> BadExtension:
    return BadExtension(reason, detail, Extension.COMPRESSION, ExtensionErrorCode.BAD_BODY)

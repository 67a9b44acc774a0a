"""emp messages to events, and events to emp messages.

The id of a request is its request id, in decimal. In a message for an emp peer the ids of this connection (of a request
delivered to it, and of a cancel of one) are stamped by the session; an answer carries the requester's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gateway.core.envelope import CORRELATION_OFFSET, Envelope
from gateway.core.event import Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emp.codec import decode, encode
from gateway.protocols.emp.extensions import (
    REQUEST_ID_OFFSET,
    EmpContent,
    compression_block,
    deflate,
    envelope_block,
    request_block,
    understand,
)
from gateway.protocols.emp.frames import (
    HEAD_BYTES,
    Block,
    Extension,
    Message,
    MessageType,
    RequestMark,
    Scheme,
    carries_data,
)
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.repeat_key import repeat_key
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.records.raw_log.frames import Facts, FrameContent, RawFrame, event_of

TO_BE_STAMPED = 1
"""An id that the session will replace; any but 0, which is not allowed, would do."""

_ID_OFFSETS: dict[int, int] = {
    Extension.REQUEST_RESPONSE: REQUEST_ID_OFFSET,
    Extension.MESH_ENVELOPE: CORRELATION_OFFSET,
}


# -- from the peer -------------------------------------------------------------------------------------------------


def to_event(raw: RawFrame, event_id: str, options: EmpOptions, env: CodecContext) -> Event:
    message = decode(raw.data)
    if not carries_data(message.type):
        raise Rejected(Reason.UNKNOWN_TYPE, f"{MessageType(message.type).name} carries no event")
    content = understand(message, options.uncompressed_bytes)
    request = str(content.request_id or "")
    cancels = content.kind is Kind.CANCEL  # a cancel says which request, and nothing else
    frame_content = FrameContent(
        content.kind,
        _subject(message, content, raw, options),
        "" if cancels else content.envelope.content_type if content.envelope else options.content_type,
        b"" if cancels else content.body,
        message_id=request if content.kind is Kind.REQUEST else "",
        correlation="" if content.kind is Kind.REQUEST else request,
    )
    return event_of(raw, event_id, frame_content)


def _subject(message: Message, content: EmpContent, raw: RawFrame, options: EmpOptions) -> str:
    if content.kind.answers:
        return raw.asked_subject()
    if content.kind is Kind.CANCEL and raw.replies:
        return raw.replies[0].subject
    return content.envelope.subject if content.envelope else options.subject_of(message.type)


def dedup_key(event: Event, options: EmpOptions) -> str | None:
    """Returns the key of a repeat. A session never uses an id twice, and it means nothing outside. Data has none."""
    return repeat_key("emp", event.session, event.message_id) if event.kind is Kind.REQUEST else None


# -- towards the peer ----------------------------------------------------------------------------------------------


class EmpAnswer(NamedTuple):
    """The fields that an answer needs to be written. An `Event` has them all."""

    kind: Kind
    subject: str
    content_type: str
    body: bytes


def from_event(event: Event, target: Target, options: EmpOptions, env: CodecContext) -> Encoded:
    if event.kind.answers:
        return answer(event, target.request, target.facts, options)
    enveloped = speaks_envelope(target.facts, options)
    if event.kind is Kind.CANCEL and not enveloped:
        return Encoded.nothing("cancel")
    type_ = options.type_for(event.subject)
    losses = () if enveloped or type_ is not None else ("subject",)
    request_id = 0 if event.kind is Kind.EVENT else TO_BE_STAMPED
    frame, stamps = _write(type_, event, request_id, target.facts, options)
    return Encoded(frame, stamps, losses)


def answer(message: EmpAnswer | Event, request: str, facts: Facts, options: EmpOptions) -> Encoded:
    """Encodes an answer. It carries the requester's own id, so nothing is left to stamp."""
    enveloped = speaks_envelope(facts, options)
    if message.kind is Kind.PROGRESS and not enveloped:
        return Encoded.nothing("progress")
    frame, _ = _write(None, message, int(request), facts, options)
    # A bare response cannot say that it is none.
    return Encoded(frame, losses=() if enveloped or message.kind is Kind.RESPONSE else (str(message.kind),))


def speaks_envelope(facts: Facts, options: EmpOptions) -> bool:
    return options.envelope == "always" or (options.envelope == "auto" and bool(facts.get("envelope")))


def _write(
    type_: int | None, message: EmpAnswer | Event, request_id: int, facts: Facts, options: EmpOptions
) -> tuple[bytes, tuple[int, ...]]:
    """Returns the message, and where its request id stands in it."""
    blocks, body = [], message.body
    if message.kind is Kind.REQUEST or message.kind.ends_request:
        blocks.append(request_block(RequestMark(request_id, asks=message.kind is Kind.REQUEST)))
    if speaks_envelope(facts, options):
        blocks.append(envelope_block(Envelope(message.kind, request_id, message.subject, message.content_type)))
    reads_gzip = options.compress == "always" or (options.compress == "auto" and bool(facts.get("compression")))
    if len(body) > options.compress_over_bytes and reads_gzip:
        blocks.append(compression_block(Scheme.GZIP))
        body = deflate(body)
    frame = encode(Message(MessageType.DATA if type_ is None else type_, body, tuple(blocks)))
    return frame, tuple(_id_offsets(blocks)) if request_id else ()


def _id_offsets(blocks: list[Block]) -> Iterator[int]:
    at = HEAD_BYTES
    for block in blocks:
        if block.extension in _ID_OFFSETS:
            yield at + HEAD_BYTES + _ID_OFFSETS[block.extension]
        at += HEAD_BYTES + len(block.content)

"""hsp frames to events, and events to hsp frames.

A request of an hsp peer has one of two ids, and the answer takes its form from it:

    "7"    a DATA_ACK with MessageID 7 (by the type's mapping, by `ack: delivered`, or to a control subject):
           its body goes ahead as a DATA of `reply_type`, then ACK; or ERROR
    "e9"   an enveloped request with correlation 9: a DATA in the envelope, then ACK

Either may have a name of its own besides (see `names`). The MessageID in the answer's ACK or ERROR is stamped by the
session, which alone knows it for an enveloped request.

An hsp server answers a request of a type with a `reply_type` likewise: a DATA of that type with the body, then ACK. Its
session logs the two as one frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from gateway.core.envelope import CORRELATION_OFFSET, Envelope
from gateway.core.envelope import decode as decode_envelope
from gateway.core.event import NO_HEADERS, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import is_control
from gateway.protocols.hsp.codec import decode, encode, split
from gateway.protocols.hsp.frames import (
    DATA_ACK_HEAD_BYTES,
    DATA_HEAD_BYTES,
    ENVELOPE_TYPE,
    MESSAGE_ID_OFFSET,
    Command,
    Frame,
)
from gateway.protocols.hsp.names import id_of, name_in
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.repeat_key import repeat_key
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.records.raw_log.frames import FrameContent, RawFrame, event_of

HSP_TYPE_HEADER = "hsp-type"
"""The error type of an hsp server, in decimal: kept for a requester who speaks hsp too."""

_NUMBER = re.compile("[0-9]{1,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]")

STAMPED_HALF = 4
"""Ids of this connection are u32, a correlation is u64: its lower half is stamped, the upper stays 0."""

_ANSWER_OF = {Command.ACK: Kind.RESPONSE, Command.ERROR: Kind.ERROR, Command.ERROR_UNDEF: Kind.ERROR}


def enveloped_request(correlation: int) -> str:
    """Returns the id of a request that was asked in the envelope."""
    return f"e{correlation}"


def is_enveloped(request: str) -> bool:
    return request.startswith("e")


# -- from the peer -------------------------------------------------------------------------------------------------


def to_event(raw: RawFrame, event_id: str, options: HspOptions, env: CodecContext) -> Event:
    ahead = _length_of_body_ahead(raw)
    frame = decode(raw.data[ahead:])
    content = _content(frame, raw, options)
    if ahead:
        message = decode(raw.data[:ahead])
        content = content._replace(body=message.payload, content_type=options.content_type_of(message.type))
    if frame.command is Command.ERROR:
        content = content._replace(headers={HSP_TYPE_HEADER: str(frame.type)})
    return event_of(raw, event_id, content)


def _length_of_body_ahead(raw: RawFrame) -> int:
    """Returns how many bytes a DATA takes that carries the body of the answer behind it; 0 where there is none."""
    if not raw.replies or raw.data[:1] != bytes([Command.DATA]):
        return 0
    size = split(raw.data, 0, len(raw.data))
    return size if size < len(raw.data) else 0


def _content(frame: Frame, raw: RawFrame, options: HspOptions) -> FrameContent:
    if frame.command in _ANSWER_OF:
        kind, subject = _ANSWER_OF[frame.command], raw.asked_subject()
        return FrameContent(kind, subject, options.content_type, frame.payload, correlation=str(frame.message_id))
    if frame.command not in (Command.DATA, Command.DATA_ACK):
        raise Rejected(Reason.UNKNOWN_TYPE, f"{frame.command.name} carries no event")
    if frame.type == ENVELOPE_TYPE:
        return _enveloped_content(frame, raw)
    acknowledged = frame.command is Command.DATA_ACK
    return FrameContent(
        options.kind_of(frame.type) if acknowledged else Kind.EVENT,
        options.subject_of(frame.type),
        options.content_type_of(frame.type),
        frame.payload,
        message_id=name_in(raw, str(frame.message_id)) if acknowledged else "",
    )


def _enveloped_content(frame: Frame, raw: RawFrame) -> FrameContent:
    head, body = decode_envelope(frame.payload)
    message_id = str(frame.message_id) if frame.command is Command.DATA_ACK else ""
    correlation = enveloped_request(head.correlation) if head.correlation else ""
    if head.kind.answers:
        return FrameContent(head.kind, raw.asked_subject(), head.content_type, body, message_id, correlation)
    if head.kind is Kind.EVENT:
        return FrameContent(head.kind, head.subject, head.content_type, body, name_in(raw, message_id))
    if head.kind is Kind.CANCEL:  # it says which request, and nothing else
        subject = raw.replies[0].subject if raw.replies else head.subject
        return FrameContent(head.kind, subject, "", b"", message_id, name_in(raw, correlation))
    if not message_id:
        raise Rejected(Reason.MALFORMED, "a request must be a DATA_ACK: nothing could acknowledge it")
    return FrameContent(head.kind, head.subject, head.content_type, body, name_in(raw, correlation))


def dedup_key(event: Event, options: HspOptions) -> str | None:
    """Returns the key of a repeat: only with `dedup: payload`, and only for a DATA_ACK that is an event.

    A MessageID may be used again after its answer. A repeated request or subscription is owed an answer of its own.
    """
    if options.dedup == "off" or event.kind is not Kind.EVENT or not event.message_id or is_control(event.subject):
        return None
    digest = sha256(event.content_type.encode() + b"\0" + event.body).hexdigest()
    return repeat_key("hsp", event.node, event.subject, digest)


def awaits_confirmation(event: Event, options: HspOptions) -> bool:
    """Returns True for a DATA_ACK that the log does not acknowledge: with `ack: delivered`, or a control subject."""
    is_acknowledged = event.kind is Kind.EVENT and bool(event.message_id)
    return is_acknowledged and (options.ack == "delivered" or is_control(event.subject))


# -- towards the peer ----------------------------------------------------------------------------------------------


def from_event(event: Event, target: Target, options: HspOptions, env: CodecContext) -> Encoded:
    if event.kind.answers:
        return answer(event, target.request, options)
    enveloped = options.envelope == "always" or (options.envelope == "auto" and bool(target.facts.get("envelope")))
    if event.kind is Kind.CANCEL:
        return _cancel(event) if enveloped else Encoded.nothing("cancel")
    command = Command.DATA if event.kind is Kind.EVENT and options.deliver == "plain" else Command.DATA_ACK
    return _enveloped(event, command) if enveloped else _typed(event, command, options)


def _typed(event: Event, command: Command, options: HspOptions) -> Encoded:
    type_ = options.type_for(event.subject, event.kind)
    losses = () if type_ is not None else ("subject",)
    frame = Frame(command, type=options.unmapped_type if type_ is None else type_, payload=event.body)
    return Encoded(encode(frame), (MESSAGE_ID_OFFSET,) if command is Command.DATA_ACK else (), losses)


def _enveloped(event: Event, command: Command) -> Encoded:
    """A request's MessageID is its correlation too: both are this connection's, and unique among its open requests."""
    asks = event.kind is Kind.REQUEST
    # Any number but 0 does until the session stamps it.
    head = Envelope(event.kind, 1 if asks else 0, event.subject, event.content_type)
    frame = encode(Frame(command, type=ENVELOPE_TYPE, payload=head.encode() + event.body))
    if command is Command.DATA:
        return Encoded(frame)
    correlation = DATA_ACK_HEAD_BYTES + CORRELATION_OFFSET + STAMPED_HALF
    return Encoded(frame, (MESSAGE_ID_OFFSET, correlation) if asks else (MESSAGE_ID_OFFSET,))


def _cancel(event: Event) -> Encoded:
    head = Envelope(Kind.CANCEL, 1, event.subject, event.content_type)
    frame = encode(Frame(Command.DATA, type=ENVELOPE_TYPE, payload=head.encode() + event.body))
    return Encoded(frame, (DATA_HEAD_BYTES + CORRELATION_OFFSET + STAMPED_HALF,))


class HspAnswer(NamedTuple):
    """The fields that an answer needs to be written. An `Event` has them all."""

    kind: Kind
    subject: str
    content_type: str
    body: bytes
    headers: Mapping[str, str] = NO_HEADERS


def answer(message: HspAnswer | Event, request: str, options: HspOptions) -> Encoded:
    if is_enveloped(request) and options.envelope != "never":
        return _enveloped_answer(message, int(id_of(request)[1:]))
    if message.kind is Kind.PROGRESS:
        return Encoded.nothing("progress")
    if message.kind is Kind.RESPONSE:
        return _response(message, options)
    return Encoded(_refusal(message, options), (MESSAGE_ID_OFFSET,))


def _enveloped_answer(message: HspAnswer | Event, correlation: int) -> Encoded:
    head = Envelope(message.kind, correlation, message.subject, message.content_type)
    data = encode(Frame(Command.DATA, type=ENVELOPE_TYPE, payload=head.encode() + message.body))
    losses = ("code",) if HSP_TYPE_HEADER in message.headers else ()
    if message.kind is Kind.PROGRESS:
        return Encoded(data)
    return Encoded(data + encode(Frame(Command.ACK)), (len(data) + MESSAGE_ID_OFFSET,), losses)


def _response(message: HspAnswer | Event, options: HspOptions) -> Encoded:
    reply_type = options.reply_type_for(message.subject)
    data = b"" if reply_type is None else encode(Frame(Command.DATA, type=reply_type, payload=message.body))
    # The ACK of a control subject says all its response does.
    lost = reply_type is None and message.body and not is_control(message.subject)
    return Encoded(data + encode(Frame(Command.ACK)), (len(data) + MESSAGE_ID_OFFSET,), ("body",) if lost else ())


def _refusal(message: HspAnswer | Event, options: HspOptions) -> bytes:
    number = _NUMBER.fullmatch(message.headers.get(HSP_TYPE_HEADER, ""))
    if message.kind is Kind.ERROR and not number and not message.body:
        return encode(Frame(Command.ERROR_UNDEF))
    return encode(Frame(Command.ERROR, type=int(number[0]) if number else options.error_type, payload=message.body))

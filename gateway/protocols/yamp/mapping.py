"""yamp ↔ events, one to one: uri is the subject, uid the message id, request uid the correlation (both as hex)."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from gateway.core.content import check, convert, encode_value
from gateway.core.event import NO_HEADERS, PROGRESSIVE_HEADER, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.repeat_key import repeat_key
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.protocols.yamp.codec import REQUEST_UID_AFTER_URI, decode, encode
from gateway.protocols.yamp.frames import (
    UID_BYTES,
    Cancel,
    Format,
    Request,
    Response,
    ResponseType,
    UserEvent,
    UserFrame,
)
from gateway.protocols.yamp.options import YampOptions
from gateway.records.link_trail import from_uid, of_event
from gateway.records.raw_log.frames import LINK_FACT, NO_FACTS, Facts, FrameContent, RawFrame, event_of

PROTOCOL_NAME = "yamp"
FORMAT_FACT = "format"
KILL_HEADER = "kill"
"""`true` on a cancel after which the requester wants no answer at all."""

_KINDS = {
    ResponseType.DONE: Kind.RESPONSE,
    ResponseType.ERROR: Kind.ERROR,
    ResponseType.PROGRESS: Kind.PROGRESS,
    ResponseType.CANCELLED: Kind.CANCELLED,
}
_FORMATS = {item.value: item for item in Format}  # to find a member of an enum takes five times as long
_OUTCOMES = {kind: outcome for outcome, kind in _KINDS.items()}
_TO_BE_STAMPED = bytes(UID_BYTES)


def to_event(raw: RawFrame, event_id: str, _options: YampOptions, _env: CodecContext) -> Event:
    """Returns the event of a frame. The session has checked the body against the handshake already."""
    frame = decode(raw.data)
    if not isinstance(frame, UserFrame):
        raise Rejected(Reason.UNKNOWN_TYPE, f"a {frame.type.name.lower()} frame is no message")
    body = b"" if isinstance(frame, Cancel) else frame.body
    content = FrameContent(
        _kind(frame),
        _subject(frame, raw),
        format_of(raw.source.facts).content_type if body else "",
        body,
        frame.uid.hex(),
        frame.request_uid.hex() if isinstance(frame, Cancel | Response) else "",
        {**_headers(frame), **_trail(frame)},
    )
    return event_of(raw, event_id, content)


def from_event(event: Event, target: Target, _options: YampOptions, _env: CodecContext) -> Encoded:
    if event.kind is Kind.PROGRESS and not target.progressive:
        return Encoded.nothing("progress")
    if event.kind is Kind.CANCEL:
        return _cancel(event)
    return Encoded(encode(_frame(event, target)))


def dedup_key(event: Event, _options: YampOptions) -> str:
    return repeat_key(PROTOCOL_NAME, event.node, event.message_id)


def format_of(facts: Facts) -> Format:
    """Returns the format that the session agreed on in its handshake."""
    return _FORMATS[str(facts[FORMAT_FACT])]


def _kind(frame: UserFrame) -> Kind:
    match frame:
        case UserEvent():
            return Kind.EVENT
        case Request():
            return Kind.REQUEST
        case Cancel():
            return Kind.CANCEL
        case Response():
            return _KINDS[frame.outcome]


def _subject(frame: UserFrame, raw: RawFrame) -> str:
    """Correlation is by uid alone, so what a request was about is what the edge remembers, whatever the uri says."""
    if isinstance(frame, Response | Cancel) and raw.replies:
        return raw.replies[0].subject or frame.uri
    return frame.uri


def _headers(frame: UserFrame) -> Mapping[str, str]:
    match frame:
        case Request(progressive=False):
            return {PROGRESSIVE_HEADER: "false"}
        case Cancel(kill=True):
            return {KILL_HEADER: "true"}
        case _:
            return NO_HEADERS


def _trail(frame: UserFrame) -> Mapping[str, str]:
    """Returns what a mesh has written into the uid of an event that came over a link."""
    trail = from_uid(frame.uid) if isinstance(frame, UserEvent | Request) else None
    return trail.headers() if trail else NO_HEADERS


def _frame(event: Event, target: Target) -> UserFrame:
    body = _body(event, format_of(target.facts).content_type)
    uid = _uid(event, target.facts, target.request)
    if event.kind is Kind.EVENT:
        return UserEvent(uid, event.subject, body)
    if event.kind is Kind.REQUEST:
        progressive = target.progressive and event.headers.get(PROGRESSIVE_HEADER) != "false"
        return Request(uid, event.subject, body, progressive)
    return Response(uid, event.subject, bytes.fromhex(target.request), _OUTCOMES[event.kind], body)


def _body(event: Event, format_type: str) -> bytes:
    """Converts the body by value to the session's format. What another protocol only calls JSON must be JSON.

    No body goes out as the format's own null: no bytes are legal in yamp, but a stock client hands them to its parser,
    which fails on them.
    """
    if not event.body:
        return encode_value(None, format_type)
    try:
        if event.protocol != PROTOCOL_NAME:
            check(event.body, event.content_type)
        return convert(event.body, event.content_type, format_type)
    except Rejected as refused:
        raise Rejected(Reason.UNTRANSLATABLE, refused.detail) from None


def _cancel(event: Event) -> Encoded:
    """Encodes a cancel. Only the session knows the uid of its request: it writes it where the zeros are."""
    kill = event.headers.get(KILL_HEADER) == "true"
    frame = encode(Cancel(_uid(event, NO_FACTS), event.subject, _TO_BE_STAMPED, kill))
    return Encoded(frame, stamps=(len(event.subject.encode()) + REQUEST_UID_AFTER_URI,))


def _uid(event: Event, facts: Facts, answers: str = "") -> bytes:
    """Fresh for each frame, and the same when the router repeats itself after a crash.

    The receive time is in it because event ids begin again when a mesh does, and a peer may remember the old ones. One
    event may answer several requests of a session.
    """
    named = f"{event.id} {event.received_at} {event.kind}{answers}".encode()
    trail = of_event(event) if facts.get(LINK_FACT) else None
    return trail.to_uid(named) if trail else blake2b(named, digest_size=UID_BYTES).digest()

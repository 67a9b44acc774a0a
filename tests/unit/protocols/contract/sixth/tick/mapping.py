"""tick to events and back: the frame says it all, but for progress and cancels, which it cannot say."""

from __future__ import annotations

from gateway.core.event import Event, Kind
from gateway.protocols.spec import CodecContext, Encoded, Options, Target
from gateway.records.raw_log.frames import RawFrame

from .codec import decode, encode
from .frames import ID_OFFSET, KINDS, Frame


class TickOptions(Options):
    content_type: str = "application/json"


def to_event(raw: RawFrame, event_id: str, options: TickOptions, _env: CodecContext) -> Event:
    frame, source = decode(raw.data), raw.source
    asks = frame.kind is Kind.REQUEST
    return Event(
        event_id,
        frame.kind,
        raw.replies[0].subject if raw.replies else frame.subject,
        source.protocol,
        source.listener,
        source.edge,
        source.session_id,
        source.peer,
        source.node,
        raw.received_at,
        message_id=str(frame.id) if asks else "",
        correlation="" if asks else str(frame.id),
        content_type=options.content_type,
        body=frame.body,
    )


def from_event(event: Event, target: Target, _options: TickOptions, _env: CodecContext) -> Encoded:
    kind = Kind.ERROR if event.kind is Kind.CANCELLED else event.kind
    if kind not in KINDS:
        return Encoded(b"", losses=(str(kind),))
    frame = encode(Frame(kind, int(target.request or 0), event.subject, event.body))
    return Encoded(frame, (ID_OFFSET,) if kind is Kind.REQUEST else ())


def dedup_key(_event: Event, _options: TickOptions) -> str | None:
    return None

"""Layer-2 messages as events, and events as layer-2 messages, as a listener without options takes them."""

from __future__ import annotations

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.protocols.wolpertinger.codec import decode, encode
from gateway.protocols.wolpertinger.frames import Message
from gateway.protocols.wolpertinger.mapping import from_event, to_event
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from tests.unit.protocols.contract.conversation import asked_by, raw
from tests.unit.protocols.wolpertinger.talk import CALL_ID

ENV = CodecContext(KeyRing())
OPTIONS = WolpertingerOptions()


def event_of(message: Message | bytes, *replies: str) -> Event:
    data = message if isinstance(message, bytes) else encode(message)
    asked = [asked_by(request, "orders.create") for request in replies]
    return to_event(raw(data, "wolpertinger", *asked), "0-7-1", OPTIONS, ENV)


def event(kind: Kind, subject: str, body: bytes = b"", content_type: str = JSON, **headers: str) -> Event:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Event("0-7-1", kind, subject, "yamp", "apps", "edge-1", "edge-1.1.7", "p", "n", 1,
                 content_type=content_type, body=body, headers=named)  # fmt: skip


def encoded(given: Event) -> Encoded:
    request = CALL_ID if given.kind.answers else ""
    return from_event(given, Target("wolpertinger", "plc", request=request), OPTIONS, ENV)


def message_for(given: Event) -> Message:
    return decode(encoded(given).frame)

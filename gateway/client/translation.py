"""Translates for one peer as the router does for all: events to deliveries of its session, frames to events.

Pure: it holds no socket and no clock but the one it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.auth.keyring import KeyRing
from gateway.core.content import JSON
from gateway.core.event import NO_HEADERS, Event, Kind
from gateway.core.reasons import Rejected
from gateway.protocols.actions import Delivery, FramesReceived
from gateway.protocols.spec import CodecContext, Encoded, Options, ProtocolSpec, Target
from gateway.records.raw_log.frames import NO_FACTS, Facts, FrameSource, RawFrame, ReplyAddress

EPOCH = SESSION = 1
"""Of a client, which has one session in its life."""

CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request; its kind is `response`, `error` or `cancelled`."""

    kind: Kind = Kind.RESPONSE
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)

    @classmethod
    def error(cls, code: str, message: str) -> Answer:
        """Returns an error as the mesh writes its own.

        >>> Answer.error("no_stock", "sold out").code
        'no_stock'
        """
        body = json.dumps({"code": code, "message": message}, ensure_ascii=False, separators=(",", ":")).encode()
        return cls(Kind.ERROR, body, JSON)

    @property
    def ok(self) -> bool:
        return self.kind is Kind.RESPONSE

    @property
    def code(self) -> str:
        """The slug of an error that has one; else the kind."""
        return str(self._body_fields.get("code") or self.kind)

    @property
    def message(self) -> str:
        """The text of an error for people; else the body, as far as that is text. It is empty if nothing was said."""
        value = self._body_fields.get("message") or self.body.decode(errors="replace")
        return "" if value == "null" else str(value)

    @property
    def _body_fields(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


class Translator:
    """Translates between events and frames. `clock` gives microseconds.

    `name` differs from that of any other client, because the ids of what is sent are made of it.
    """

    def __init__(
        self, spec: ProtocolSpec[Any], options: Options, peer: str, name: str, clock: Callable[[], int]
    ) -> None:
        self._spec = spec
        self._options = options
        self._env = CodecContext(KeyRing())
        self._peer = peer
        self._name = name
        self._clock = clock
        self._count = 0
        self._source = self._source_with(NO_FACTS)

    def agreed(self, facts: Facts) -> None:
        """Takes the facts that the session has negotiated."""
        self._source = self._source_with(facts)

    def _source_with(self, facts: Facts) -> FrameSource:
        return FrameSource(self._spec.name, "", CLIENT, EPOCH, SESSION, peer=self._peer, facts=facts)

    # -- towards the peer --------------------------------------------------------------------------------------

    def event(self, subject: str, body: bytes, content_type: str) -> Delivery:
        return self._delivery(self._new(Kind.EVENT, subject, body, content_type))

    def request(self, subject: str, body: bytes, content_type: str) -> Delivery:
        """Returns a request. It always asks for progress, because progress prolongs the time that we wait."""
        event = self._new(Kind.REQUEST, subject, body, content_type)
        reply = ReplyAddress(self._spec.name, "", CLIENT, EPOCH, SESSION, event.id, subject)
        return self._delivery(event, reply=reply)

    def cancel(self, request: Delivery) -> Delivery:
        """Returns the cancel of a request that was sent."""
        event = self._new(Kind.CANCEL, request.subject, b"", "")
        return self._delivery(event, reply=request.reply)

    def answer(self, request: Event, answer: Answer) -> Delivery:
        """Returns the answer to a request that came from the peer."""
        event = self._new(answer.kind, request.subject, answer.body, answer.content_type, answer.headers)
        return self._delivery(event, request=request.message_id)

    def no_answer(self, request: Event) -> Delivery:
        """The peer's call is an event here, and owed nothing: its session forgets it."""
        return Delivery("", Kind.EVENT, request.subject, b"", request=request.message_id)

    def _new(
        self, kind: Kind, subject: str, body: bytes, content_type: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> Event:
        self._count += 1
        return Event(
            id=f"{self._name}-{self._count}",
            kind=kind,
            subject=subject,
            protocol=CLIENT,
            edge=CLIENT,
            received_at=self._clock(),
            content_type=content_type,
            body=body,
            headers=headers,
        )

    def _delivery(self, event: Event, *, reply: ReplyAddress | None = None, request: str = "") -> Delivery:
        target = Target(self._spec.name, "", self._source.facts, request)
        encoded: Encoded = self._spec.from_event(event, target, self._options, self._env)
        return Delivery(event.id, event.kind, event.subject, encoded.frame, encoded.stamps, reply, request)

    # -- from the peer -----------------------------------------------------------------------------------------

    def events(self, received: FramesReceived) -> Iterator[Event | Rejected]:
        """Yields the events of the frames, and a refusal in the place of a frame that cannot be understood."""
        at = 0
        for length in received.lengths:
            data = received.data[at : at + length]
            at += length
            raw = RawFrame(data, self._source, self._clock(), received.replies)
            try:
                yield self._spec.to_event(raw, "", self._options, self._env)
            except Rejected as refused:
                yield refused

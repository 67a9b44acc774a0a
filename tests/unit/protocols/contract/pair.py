"""Two sessions of one protocol, joined: one listens, one has dialled; each side reads what it was sent as events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gateway.auth.keyring import KeyRing
from gateway.core.event import Event, Kind
from gateway.protocols.actions import Action, Delivered, Delivery, FramesReceived, Opened
from gateway.protocols.session import Session
from gateway.protocols.spec import CodecContext, Encoded, Options, ProtocolSpec, Target
from gateway.records.raw_log.frames import Fact, FrameSource, RawFrame, Reply, ReplyAddress
from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.contract.streams import new_session

ENV = CodecContext(KeyRing())


def counted_token() -> Any:
    """As unlike each other as random bytes, and the same in every run."""
    numbers = count(1)
    return lambda size: next(numbers).to_bytes(size, "big")


def cut_frames(received: FramesReceived) -> Iterator[bytes]:
    pos = 0
    for length in received.lengths:
        yield received.data[pos : pos + length]
        pos += length
    assert pos == len(received.data)


@dataclass
class Side:
    """One end, with the part of the edge and the router that it needs: every tag is logged at once."""

    spec: ProtocolSpec[Any]
    name: str
    session: Session
    options: Options
    facts: dict[str, Fact] = field(default_factory=lambda: {"envelope": True})
    """The envelope may be used from the start: else emp and hsp could name no subject."""
    heard: list[Event] = field(default_factory=list)
    outcomes: list[Delivered] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.talk = Conversation(self.session)
        self.take(self.talk.said)

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Opened(facts):
                    self.facts |= facts
                case Delivered():
                    self.outcomes.append(action)
                case FramesReceived(tag=tag, replies=replies):
                    self.heard += [self.read(data, replies) for data in cut_frames(action)]
                    if tag is not None:
                        self.take(self.talk.logs(tag))

    def read(self, data: bytes, replies: tuple[Reply, ...]) -> Event:
        source = FrameSource(self.spec.name, self.name, "edge-0", 1, 1, node=self.name, facts=self.facts)
        raw = RawFrame(data, source, 1_700_000_000_000_000, replies)
        return self.spec.to_event(raw, f"0-0-{len(self.heard)}", self.options, ENV)

    def hears(self, data: bytes) -> None:
        self.take(self.talk.receives(data))

    def encoded(self, event: Event, request: str = "") -> Encoded:
        target = Target(self.spec.name, self.name, self.facts, request)
        return self.spec.from_event(event, target, self.options, ENV)

    def tells(self, event: Event, request: str = "", reply: ReplyAddress | None = None) -> Encoded:
        """The router's way to this side's peer."""
        encoded = self.encoded(event, request)
        given = Delivery(event.id, event.kind, event.subject, encoded.frame, encoded.stamps, reply, request)
        self.take(self.talk.delivers(given))
        return encoded


class Pair:
    def __init__(self, spec: ProtocolSpec[Any], keys: Mapping[str, Any] | None = None, piece: int = 1 << 20) -> None:
        self.spec, self.piece = spec, piece
        self.server = self._side("server", keys, dialled=False)
        self.client = self._side("client", keys, dialled=True)
        self.tape = b""
        """All that the client has said."""
        self.exchange()

    def _side(self, name: str, keys: Mapping[str, Any] | None, *, dialled: bool) -> Side:
        session = new_session(self.spec, keys, token=counted_token(), dialled=dialled)
        return Side(self.spec, name, session, self.spec.options.model_validate(keys or {}))

    def exchange(self) -> None:
        """Both read what the other wrote, until both are silent."""
        while True:
            said, replied = self.client.talk.sends(), self.server.talk.sends()
            self.tape += said
            if not said and not replied:
                return
            for side, data in ((self.server, said), (self.client, replied)):
                for pos in range(0, len(data), self.piece):
                    side.hears(data[pos : pos + self.piece])

    def asks(self, event: Event) -> ReplyAddress:
        """The client's own request goes to the server."""
        reply = asked_by_client(self.spec, event)
        self.client.tells(event, reply=reply)
        self.exchange()
        return reply


def asked_by_client(spec: ProtocolSpec[Any], event: Event) -> ReplyAddress:
    return ReplyAddress(spec.name, "client", "edge-0", 1, 2, f"r{event.id}", event.subject)


def said(kind: Kind, body: bytes = b"[1]", subject: str = "orders.create", number: int = 0) -> Event:
    """An event of the mesh, as the router has it when it encodes."""
    content_type = "application/json" if body else ""
    return Event(
        f"1-1-{number}", kind, subject, "mesh", "", "edge-9", "edge-9.1.9", "", "node-9", 5, body=body,
        content_type=content_type,
    )  # fmt: skip

"""The facts that stand beside a raw frame, so that it can be decoded without anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgpack

from gateway.core.event import NO_HEADERS, Auth, Event, Kind
from gateway.core.ids import durable_name, session_id
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import check_subject

Fact = str | int | bool
Facts = Mapping[str, Fact]
LINK_FACT = "link"
"""A fact of sessions that we dialled: what goes there carries its trail."""
REDELIVER_FACT = "redeliver_seconds"
"""A fact of sessions whose node is proven or dialled. For so long the node keeps its subscriptions after a session has
ended, and is owed what was accepted meanwhile."""
NO_FACTS: Facts = MappingProxyType({})


@dataclass(slots=True)
class FrameSource:
    """The source of a frame, not to be changed once made, as its frames are not.

    `session` is the session's number within its edge's epoch; 0 for UDP, which has none.

    `facts` are what the session has negotiated so far (a serializer, that the envelope is spoken).
    """

    protocol: str
    listener: str
    edge: str
    epoch: int
    session: int = 0
    peer: str = ""
    node: str = ""
    auth: Auth = Auth.NONE
    key_id: str = ""
    facts: Facts = field(default_factory=lambda: NO_FACTS)
    _packed: bytes = field(default=b"", init=False, repr=False, compare=False)

    def pack(self) -> bytes:
        """Returns what a record keeps of a source, which is packed once: a device sends many packets."""
        if not self._packed:
            self._packed = msgpack.packb(
                (
                    self.protocol,
                    self.listener,
                    self.session,
                    self.peer,
                    self.node,
                    self.auth.value,
                    self.key_id,
                    dict(self.facts),
                )
            )
        return self._packed

    @property
    def session_id(self) -> str:
        return session_id(self.edge, self.epoch, self.session) if self.session else ""

    @property
    def durable_name(self) -> str:
        """The name of the node if it outlives its sessions: what subscribes then, and what deliveries are owed to."""
        return durable_name(self.node, self.listener)


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """The address of an answer: the requester's session, and the id that the requester gave to the request.

    The edge that delivers a request keeps this beside the id on its own wire, and logs it with the raw answer.
    `facts` and `listener` tell the router how to encode the answer.
    """

    protocol: str
    listener: str
    edge: str
    epoch: int
    session: int
    request: str
    subject: str = ""
    progressive: bool = True
    facts: Facts = field(default_factory=lambda: NO_FACTS, compare=False)

    @property
    def key(self) -> tuple[str, int, int, str]:
        """Names one open request in the whole mesh."""
        return self.edge, self.epoch, self.session, self.request

    def pack(self) -> bytes:
        packed: bytes = msgpack.packb(
            (
                self.protocol,
                self.listener,
                self.edge,
                self.epoch,
                self.session,
                self.request,
                self.subject,
                self.progressive,
                dict(self.facts),
            )
        )
        return packed

    @classmethod
    def unpack(cls, data: bytes) -> ReplyAddress:
        return cls(*msgpack.unpackb(data))


@dataclass(frozen=True, slots=True)
class RequestName:
    """Names the request that a frame opens or cancels, where its own id would not do. The log knows the session."""

    request: str
    subject: str
    protocol: str = ""

    def pack(self) -> bytes:
        """Returns what stands in a record: an address without an edge."""
        return ReplyAddress(self.protocol, "", "", 0, 0, self.request, self.subject).pack()


Reply = ReplyAddress | RequestName


def unpack_reply(data: bytes) -> Reply:
    reply = ReplyAddress.unpack(data)
    return reply if reply.edge else RequestName(reply.request, reply.subject, reply.protocol)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Marks a frame that somebody has put into the log once more (redrive, replay).

    `event_id`: the id of the first time, under which it goes on. `at`: when it was put in again, in microseconds: who
    wants it is asked for that time, while its freshness stays judged at its receipt. `reached`: the destinations and
    nodes that got it the first time, and must not get it twice.
    """

    event_id: str
    at: int
    reached: frozenset[str] = frozenset()

    def pack(self) -> tuple[str, int, list[str]]:
        return self.event_id, self.at, sorted(self.reached)

    @classmethod
    def unpack(cls, event_id: str, at: int, reached: list[str]) -> Replayed:
        return cls(event_id, at, frozenset(reached))


@dataclass(slots=True)
class RawFrame:
    """One frame exactly as received, not to be changed once made.

    `replies` are the requests that it answers, as the edge remembered them. For a request, or its cancel, it is the
    `RequestName` that its session gave it, if that is not its own id.

    It is not `frozen`: as with an `Event`, that costs three times as much.
    """

    data: bytes
    source: FrameSource
    received_at: int
    replies: tuple[Reply, ...] = ()
    again: Replayed | None = None

    @property
    def reply_addresses(self) -> tuple[ReplyAddress, ...]:
        """The addresses of those who wait for this answer."""
        return tuple([reply for reply in self.replies if isinstance(reply, ReplyAddress)])

    def asked_subject(self) -> str:
        """Returns the subject of the request that this frame answers. Raises Rejected if nobody asked."""
        if not self.replies:
            raise Rejected(Reason.MALFORMED, "an answer to no open request")
        return self.replies[0].subject


class FrameContent(NamedTuple):
    """The content of a session's frame, whatever protocol it is written in."""

    kind: Kind
    subject: str
    content_type: str = ""
    body: bytes = b""
    message_id: str = ""
    correlation: str = ""
    headers: Mapping[str, str] = NO_HEADERS


def event_of(raw: RawFrame, event_id: str, content: FrameContent) -> Event:
    """Returns what a session's frame says, with all that its source says. Raises Rejected for a bad subject."""
    check_subject(content.subject)
    source = raw.source
    return Event(
        id=event_id,
        kind=content.kind,
        subject=content.subject,
        protocol=source.protocol,
        listener=source.listener,
        edge=source.edge,
        session=source.session_id,
        peer=source.peer,
        node=source.node,
        received_at=raw.received_at,
        message_id=content.message_id,
        correlation=content.correlation,
        content_type=content.content_type,
        body=content.body,
        headers=content.headers,
        auth=source.auth,
        key_id=source.key_id,
    )

"""The actions that a session asks of the edge, and the deliveries that the edge gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.records.egress import NO_FRAME
from gateway.records.raw_log.frames import NO_FACTS, Facts, Reply, ReplyAddress


class Outcome(StrEnum):
    """The outcome of a delivery."""

    CONFIRMED = "confirmed"
    WRITTEN = "written"
    UNDELIVERABLE = "undeliverable"
    EXPIRED = "expired"


REACHED = frozenset({Outcome.CONFIRMED, Outcome.WRITTEN})
"""It got there: its receiver said so, or it went out by a protocol in which none can."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The handshake is over; the session exists for the mesh. Comes again when a fact has changed."""

    facts: Facts = field(default_factory=lambda: NO_FACTS)


@dataclass(frozen=True, slots=True)
class Identified:
    """The protocol's own authentication proved who the peer is (comes after Opened)."""

    node: str


@dataclass(frozen=True, slots=True)
class LoginAsked:
    """The peer asks, by a request on `mesh.login`, to be the node that a token names. The request is open, and the edge
    answers it. Its frame is never logged, since it holds the token."""

    request: str
    frame: bytes


@dataclass(frozen=True, slots=True)
class FramesReceived:
    """Reports whole frames, side by side in `data`, in order.

    `logged` hands `tag` back when all of them are durable.

    `replies`: the requests that these frames answer; or the name of the one that they open or cancel, where its own id
    would not do.
    """

    data: bytes
    lengths: tuple[int, ...]
    tag: int | None = None
    replies: tuple[Reply, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameRefused:
    """Reports input that the session refused and went on after. It is counted, and not logged in `raw`."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The end of one delivery. `refused`: the peer has said no, or a fault of ours would stop it again."""

    delivery: Delivery
    outcome: Outcome
    detail: str = ""
    refused: bool = False


REQUEST_ENDS = ("response", "error", "cancelled", "timeout", "late")
"""The ways in which a request of the peer ends; `late` is said of an answer after that."""


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """Reports the end of a request. `outcome` is one of REQUEST_ENDS."""

    outcome: str


@dataclass(frozen=True, slots=True)
class AbandonRequests:
    """Requests delivered to the peer that it can no longer answer: their requesters are told at once."""

    replies: tuple[ReplyAddress, ...]
    error: MeshError = MeshError.UNDELIVERABLE


@dataclass(frozen=True, slots=True)
class DropRequest:
    """The peer waits for no answer to this request of its own any more: its session is as good as over."""

    request: str
    subject: str


class CloseReason(StrEnum):
    """The reason why we end a session whose peer did nothing wrong.

    `OVERLOAD`: there was no room for it to begin with. `NOT_LOGGED`: Kafka will never take what it sent. `INTERNAL`: a
    fault of ours. `EXPIRED`: what proved the peer has ended. `REVOKED`: the proof is no longer accepted.
    `LOGIN_REQUIRED`: the peer did not prove who it is, and must here. `OVER_BUDGET`: it held most of the memory that an
    edge has for all sessions together.
    """

    DRAIN = "drain"
    KICKED = "kicked"
    IDLE = "idle"
    OVERLOAD = Reason.OVERLOAD.value
    NOT_LOGGED = "not_logged"
    INTERNAL = Reason.INTERNAL.value
    EXPIRED = "expired"
    REVOKED = "revoked"
    LOGIN_REQUIRED = "login_required"
    OVER_BUDGET = "over_budget"


OUR_ENDS = frozenset(CloseReason) - {CloseReason.INTERNAL}
"""Why a session ends that has nothing to do with what its peer was sent."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """The session has ended. `reason` is a slug for the metric: a `Reason`, a `CloseReason`, `bye`, `eof`,
    `peer_error`, `redirect` (`detail` is where to)."""

    reason: str
    detail: str = ""


Action = (
    Opened
    | Identified
    | LoginAsked
    | FramesReceived
    | FrameRefused
    | Delivered
    | RequestEnded
    | AbandonRequests
    | DropRequest
    | Terminated
)


@dataclass(slots=True)
class Delivery:
    """A frame the router wrote for this session.

    `stamps`: offsets where the session writes the id of its own connection. `reply`: who asked (kinds request and
    cancel). `request`: this peer's own id of the request that an answer belongs to.
    `event_id` and `part` name it among this session's deliveries.
    """

    event_id: str
    kind: Kind
    subject: str
    frame: bytes
    stamps: tuple[int, ...] = ()
    reply: ReplyAddress | None = None
    request: str = ""
    origin: str = ""
    received_at: int = 0
    part: int = 0

    @property
    def only_ends_request(self) -> bool:
        """True if the peer's protocol has no form for it: the session only notes that a request is over."""
        return self.frame == NO_FRAME

"""Frames of the pseudo-protocol `mesh`: what edges and the router tell the router through the raw log.

They ride in the log so that they are seen in order with the session's own frames, and again in the same order by a
replay. Only an edge or the router can write them: a peer's frame always stands under its own protocol.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.core.reasons import MeshError, Reason, Rejected

MESH = "mesh"


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A session exists, or something about it has changed. Its Source says who; this says what it speaks and is owed.

    `again`: it existed before this frame, and something it negotiated has changed.
    """

    speaks: str
    subscribe: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """A session is over; so are its interests."""

    speaks: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EdgeStarted:
    """A new epoch of an edge: all its earlier sessions are over. Stands in every raw partition."""


@dataclass(frozen=True, slots=True)
class RequestsAbandoned:
    """The requests beside this frame (`replies`) will not be answered by the session that got them."""

    error: str = MeshError.UNDELIVERABLE


@dataclass(frozen=True, slots=True)
class RequestDropped:
    """Nobody waits for the answer to the request beside this frame (`replies`): its session is over.

    The server of the request hears of it as of a cancel.
    """


@dataclass(frozen=True, slots=True)
class InterestChanged:
    """Reports a change of interests. The router writes it into every raw partition.

    Each worker applies it where it stands in its own log.

    `change` is a change of the interest table as text. `edge`, `ticket`: whom to tell when it has been applied.
    """

    change: str
    edge: str = ""
    ticket: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryConfirmed:
    """An edge is done with one egress record that a publisher waits for, at `edge` and under `ticket`.

    `part`: of the record's position. `failed`: not everybody it was for has got it.
    """

    edge: str
    ticket: str
    part: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryMigrated:
    """One delivery, as the router wrote it, that an edge owes to a node which has come back at another edge, `edge`.

    Stands beside the event's id (`again`), in the partition of the frame that the delivery came of. `move` names the
    node's move, `part` is of the delivery's position, `received_at` is the event's, `frame` is base64.
    """

    node: str
    move: str
    edge: str
    part: int
    protocol: str
    kind: str
    subject: str
    origin: str
    received_at: int
    frame: str
    stamps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MigrationFinished:
    """Marks the end of what the node was owed of this partition: all of it stands before this frame."""

    node: str
    move: str
    edge: str


@dataclass(frozen=True, slots=True)
class LatencyProbe:
    """The router asks how long its own way is, from this log to a sink. `token` is for who asked to know it again."""

    token: str


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """The finding of a rule, of which the mesh makes an event.

    `token` is the same when the rule finds the same again after a crash. `encoding`: empty, or `base64` for a body that
    is no text. `origin` is the id of the event that it follows from, if it follows from one. `hops`: how many rules lie
    between it and what a peer sent.
    """

    rule: str
    token: str
    subject: str
    body: str = ""
    encoding: str = ""
    content_type: str = ""
    origin: str = ""
    hops: int = 1


MeshFrame = (
    SessionOpened
    | SessionClosed
    | EdgeStarted
    | RequestsAbandoned
    | RequestDropped
    | InterestChanged
    | DeliveryConfirmed
    | DeliveryMigrated
    | MigrationFinished
    | LatencyProbe
    | RuleEvent
)
_TYPES: dict[str, Callable[..., MeshFrame]] = {
    "opened": SessionOpened,
    "closed": SessionClosed,
    "edge": EdgeStarted,
    "abandoned": RequestsAbandoned,
    "dropped": RequestDropped,
    "interest": InterestChanged,
    "delivered": DeliveryConfirmed,
    "debt": DeliveryMigrated,
    "debts": MigrationFinished,
    "probe": LatencyProbe,
    "rule": RuleEvent,
}
_NAMES = {frame_type: name for name, frame_type in _TYPES.items()}


def encode(frame: MeshFrame) -> bytes:
    fields = {name: getattr(frame, name) for name in frame.__dataclass_fields__}
    return json.dumps({"type": _NAMES[type(frame)], **fields}, separators=(",", ":")).encode()


def decode(data: bytes) -> MeshFrame:
    try:
        fields: dict[str, Any] = json.loads(data)
        frame_type = _TYPES[fields.pop("type")]
        return frame_type(**{name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected(Reason.MALFORMED, f"mesh frame: {type(error).__name__}") from None

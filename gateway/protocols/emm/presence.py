"""Hello: what a node says it wants, and what the mesh answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.core.event import SECOND_US, Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType
from gateway.protocols.emm.signing import Signer, message_id, signing_identity
from gateway.protocols.spec import CodecContext


@dataclass(frozen=True, slots=True)
class Capabilities:
    """A node's full list: it replaces the one before."""

    subscribe: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()


def capabilities(body: bytes) -> Capabilities | None:
    """Returns what a hello asks for; None if its capabilities are a blob of the node's own."""
    try:
        fields = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not fields.keys() & {"subscribe", "serve"}:
        return None
    subscribe, serve = _patterns(fields.get("subscribe", [])), _patterns(fields.get("serve", []))
    return None if subscribe is None or serve is None else Capabilities(subscribe, serve)


def _patterns(fields: Any) -> tuple[str, ...] | None:
    if not isinstance(fields, list) or not all(isinstance(item, str) for item in fields):
        return None
    return tuple(fields)


def hello_reply(event: Event, lease_seconds: int, subscribed: Sequence[str], env: CodecContext) -> bytes:
    """Returns the mesh's own hello in answer to one: byte for byte the same for the same event.

    As many of the patterns as a packet holds; `more` counts the others.
    """
    for shown in range(len(subscribed), 0, -1):
        try:
            return _hello(event, lease_seconds, subscribed[:shown], len(subscribed) - shown, env)
        except Rejected as refused:
            if refused.reason is not Reason.TOO_LARGE:
                raise
    return _hello(event, lease_seconds, (), len(subscribed), env)


def _hello(event: Event, lease_seconds: int, shown: Sequence[str], more: int, env: CodecContext) -> bytes:
    identity = signing_identity(env.identity)
    fields: dict[str, Any] = {"lease_seconds": lease_seconds, "subscribed": list(shown)}
    if more:
        fields["more"] = more
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    draft = codec.Draft(
        message_id=message_id(event.id, identity, b"hello"),
        timestamp=event.received_at // SECOND_US,
        fields=(Field(FieldType.BINARY, body),),
        event_type=EventType.HELLO,
    )
    return codec.encode(draft, Signer.of(identity))

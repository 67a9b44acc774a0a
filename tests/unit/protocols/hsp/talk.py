"""An hsp session under test, and the frames that it is told and says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.hsp.codec import decode, encode, split
from gateway.protocols.hsp.frames import Command, Frame
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from tests.unit.protocols.contract.conversation import Conversation, settings, whole

ORDERS = {"types": {7: {"subject": "orders.create", "kind": "request"}}}


def hsp(
    options: dict[str, Any] | None = None, may_publish: Callable[[str], bool] | None = None, **changes: Any
) -> Conversation:
    session = HspSession(settings(**changes), HspOptions.model_validate(options or {}))
    session.may_publish = may_publish
    return Conversation(session)


def data(type_: int = 17, payload: bytes = b"x") -> bytes:
    return encode(Frame(Command.DATA, 0, type_, payload))


def data_ack(message_id: int = 1, type_: int = 17, payload: bytes = b"x") -> bytes:
    return encode(Frame(Command.DATA_ACK, message_id, type_, payload))


def enveloped(kind: Kind, correlation: int = 0, body: bytes = b"x", subject: str = "orders.create") -> bytes:
    return Envelope(kind, correlation, subject).encode() + body


def ack(message_id: int = 1) -> bytes:
    return encode(Frame(Command.ACK, message_id))


def error(message_id: int, code: str, message: str, type_: int = 0xFF00) -> bytes:
    body = json.dumps({"code": code, "message": message}, separators=(",", ":")).encode()
    return encode(Frame(Command.ERROR, message_id, type_, body))


def frames(stream: bytes) -> list[Frame]:
    return [decode(one) for one in whole(stream, split)]

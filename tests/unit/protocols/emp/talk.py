"""An emp session under test, and the messages that it is told and says."""

from __future__ import annotations

from typing import Any

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.protocols.emp.codec import decode, decode_error, encode, encode_hello, split
from gateway.protocols.emp.extensions import compression_block, envelope_block, request_block
from gateway.protocols.emp.frames import Block, Failure, Message, MessageType, RequestMark, Scheme
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.emp.session import EmpSession
from tests.unit.protocols.contract.conversation import Conversation, delivery, settings, whole

HELLO = encode_hello()
BYE, PING, PONG = (encode(Message(type_)) for type_ in (MessageType.BYE, MessageType.PING, MessageType.PONG))
GZIP = compression_block(Scheme.GZIP)


def greeting(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    """A session before the peer's hello."""
    return Conversation(EmpSession(settings(**changes), EmpOptions.model_validate(options or {})))


def emp(options: dict[str, Any] | None = None, **changes: Any) -> Conversation:
    """A session after it."""
    talk = greeting(options, **changes)
    talk.receives(HELLO)
    assert talk.sends() == HELLO
    return talk


def data(body: bytes = b"x", *blocks: Block, type_: int = MessageType.DATA) -> bytes:
    return encode(Message(type_, body, blocks))


def request(request_id: int = 1, body: bytes = b"x", *more: Block) -> bytes:
    return data(body, request_block(RequestMark(request_id, asks=True)), *more)


def response(request_id: int = 1, body: bytes = b"x", *more: Block) -> bytes:
    return data(body, request_block(RequestMark(request_id, asks=False)), *more)


def envelope(kind: Kind, correlation: int = 0, subject: str = "orders.create") -> Block:
    return envelope_block(Envelope(kind, correlation, subject, "text/plain"))


def messages(stream: bytes) -> list[Message]:
    return [decode(one) for one in whole(stream, split)]


def failure(talk: Conversation) -> Failure:
    """The error message that is all the session has said."""
    (said,) = messages(talk.sends())
    assert said.type == MessageType.ERROR
    return decode_error(said.body)


def answered(frame: bytes, kind: Kind = Kind.RESPONSE, request_id: str = "1") -> Any:
    return delivery(frame, kind, request=request_id)

"""A session under test: what it receives, what it does and says, and a clock that moves only when told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.core.event import Kind
from gateway.protocols.actions import Action, Delivery, FramesReceived, Terminated
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.records.raw_log.frames import FrameSource, RawFrame, Reply, ReplyAddress

ActionT = TypeVar("ActionT")


def token(size: int) -> bytes:
    return bytes(range(size))


def settings(**changes: Any) -> SessionSettings:
    return SessionSettings(**{"token": token} | changes)


def delivery(frame: bytes, kind: Kind = Kind.EVENT, **fields: Any) -> Delivery:
    return Delivery(event_id="0-0-0", kind=kind, subject="orders.create", frame=frame, **fields)


def asked_by(request: str = "r1", subject: str = "orders.create", **fields: Any) -> ReplyAddress:
    """A requester somewhere else in the mesh."""
    return ReplyAddress("yamp", "apps", "edge-1", 1, 7, request, subject, **fields)


def raw(data: bytes, protocol: str, *replies: Reply) -> RawFrame:
    source = FrameSource(protocol, "plc", "edge-0", 1, 3, peer="192.0.2.1:40000", node="node-3")
    return RawFrame(data, source, 1_700_000_000_000_000, replies)


@dataclass
class Conversation:
    session: Session
    now: float = 1000.0
    said: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session.start(self.now)

    def receives(self, data: bytes) -> list[Action]:
        self.session.receive(data, self.now)
        return self.acts()

    def delivers(self, delivery: Delivery) -> list[Action]:
        self.session.deliver(delivery, self.now)
        return self.acts()

    def logs(self, tag: int | None) -> list[Action]:
        assert tag is not None
        self.session.logged(tag, self.now)
        return self.acts()

    def waits(self, seconds: float) -> list[Action]:
        self.now += seconds
        self.session.handle_timer(self.now)
        return self.acts()

    def acts(self) -> list[Action]:
        actions = self.session.actions()
        self.said += actions
        return actions

    def sends(self) -> bytes:
        return b"".join(self.session.data_to_send())

    @property
    def ended(self) -> str | None:
        """Why the session ended, if it has."""
        self.acts()
        return next((action.reason for action in self.said if isinstance(action, Terminated)), None)


def only(kind: type[ActionT], actions: list[Action]) -> ActionT:
    """The one action of a kind."""
    found = [action for action in actions if isinstance(action, kind)]
    assert len(found) == 1, actions
    return found[0]


def received(actions: list[Action]) -> list[FramesReceived]:
    return [action for action in actions if isinstance(action, FramesReceived)]


def whole(stream: bytes, split: Callable[[bytes, int, int], int]) -> list[bytes]:
    """The frames of a stream that ends with one."""
    found, pos = [], 0
    while pos < len(stream):
        size = split(stream, pos, 1_048_576)
        found.append(stream[pos : pos + size])
        pos += size
    return found

"""The states of a yamp session, and which frame leads where."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from gateway.protocols.yamp.frames import FrameType


class State(Enum):
    AWAITING_HANDSHAKE = auto()
    AWAITING_ECHO = auto()
    OPEN = auto()
    ENDED = auto()


_BEGINNING = {
    FrameType.HANDSHAKE: State.OPEN,
    FrameType.CLOSE: State.ENDED,
    FrameType.CLOSE_REDIRECT: State.ENDED,
}
TRANSITIONS: Mapping[State, Mapping[FrameType, State]] = MappingProxyType(
    {
        State.AWAITING_HANDSHAKE: _BEGINNING,
        State.AWAITING_ECHO: _BEGINNING,
        State.OPEN: {
            FrameType.PING: State.OPEN,
            FrameType.PONG: State.OPEN,
            FrameType.CLOSE: State.ENDED,
            FrameType.CLOSE_REDIRECT: State.ENDED,
            FrameType.EVENT: State.OPEN,
            FrameType.REQUEST: State.OPEN,
            FrameType.CANCEL: State.OPEN,
            FrameType.RESPONSE: State.OPEN,
        },
        State.ENDED: {},
    }
)
"""The state that each accepted frame leads to. A frame that is not here ends the session with a reason."""

"""The states of a yamp session, and which frame leads where."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from gateway.protocols.yamp.frames import FrameType


class YampState(Enum):
    AWAITING_HANDSHAKE = auto()
    AWAITING_ECHO = auto()
    OPEN = auto()
    ENDED = auto()


_BEGINNING = {
    FrameType.HANDSHAKE: YampState.OPEN,
    FrameType.CLOSE: YampState.ENDED,
    FrameType.CLOSE_REDIRECT: YampState.ENDED,
}
TRANSITIONS: Mapping[YampState, Mapping[FrameType, YampState]] = MappingProxyType(
    {
        YampState.AWAITING_HANDSHAKE: _BEGINNING,
        YampState.AWAITING_ECHO: _BEGINNING,
        YampState.OPEN: {
            FrameType.PING: YampState.OPEN,
            FrameType.PONG: YampState.OPEN,
            FrameType.CLOSE: YampState.ENDED,
            FrameType.CLOSE_REDIRECT: YampState.ENDED,
            FrameType.EVENT: YampState.OPEN,
            FrameType.REQUEST: YampState.OPEN,
            FrameType.CANCEL: YampState.OPEN,
            FrameType.RESPONSE: YampState.OPEN,
        },
        YampState.ENDED: {},
    }
)
"""The state that each accepted frame leads to. A frame that is not here ends the session with a reason."""

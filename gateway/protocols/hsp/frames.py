"""The seven frames of hsp, as bytes. Integers are unsigned and big-endian; a payload is as long as `length` says.

DATA         00 | type u16 | length u32 | payload
DATA_ACK     01 | message id u32 | type u16 | length u32 | payload
ACK          02 | message id u32
PING         03
PONG         04
ERROR        05 | message id u32 | type u16 | length u32 | payload
ERROR_UNDEF  06 | message id u32
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

ENVELOPE_TYPE = 0xFFFF
"""The type whose payload begins with the mesh envelope."""

DATA_HEAD_BYTES = 7
DATA_ACK_HEAD_BYTES = 11
"""The size of the head of a DATA_ACK, and of an ERROR too."""

MESSAGE_ID_OFFSET = 1
"""The offset of the message id in every frame that has one."""

DATA_ACK_TYPE_OFFSET = 5
"""The offset of the type of a DATA_ACK."""


class Command(IntEnum):
    DATA = 0
    DATA_ACK = 1
    ACK = 2
    PING = 3
    PONG = 4
    ERROR = 5
    ERROR_UNDEF = 6

    @property
    def has_message_id(self) -> bool:
        return self in _WITH_MESSAGE_ID

    @property
    def has_payload(self) -> bool:
        return self in _WITH_PAYLOAD


_WITH_MESSAGE_ID = frozenset({Command.DATA_ACK, Command.ACK, Command.ERROR, Command.ERROR_UNDEF})
_WITH_PAYLOAD = frozenset({Command.DATA, Command.DATA_ACK, Command.ERROR})


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame. What its command does not carry stays 0 and empty."""

    command: Command
    message_id: int = 0
    type: int = 0
    payload: bytes = b""

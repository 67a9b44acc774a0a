"""The EMM packet: one datagram, one packet. All numbers are big-endian.

header, 17 bytes                                  payload, 0..531 bytes: fields of
┌─────────┬────────────┬───────┬────────────┐     ┌──────┬────────┬────────────────┐
│ u8      │ 4 bytes    │ u8    │ u8         │     │ u8   │ u8     │ length bytes   │
│ version │ Message ID │ flags │ event type │     │ type │ length │ value          │
├─────────┴──────┬─────┴───────┴──┬─────────┘     └──────┴────────┴────────────────┘
│ u64 timestamp  │ u16 Payload    │               A value above 255 bytes stands in adjacent fields of one type:
│ in seconds     │ Length         │               a field of 255 bytes goes on in the next of its type, and an
└────────────────┴────────────────┘               empty one closes a last piece of exactly 255.

on the wire: data and context fields ascending, then 13 Public Key, 18 Auth Key ID, 10 HMAC, 12 Signature
signed:      header as sent | all fields but 10 and 12, sorted by type (stable; those inside 11 likewise)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

VERSION = 1
HEADER_BYTES = 17
FLAGS_OFFSET = 5
MESSAGE_ID_BYTES = 4
SEALED_HEADER_BYTES = 15  # what encryption authenticates: all of the header but Payload Length
MAX_PACKET_BYTES = 548  # the least MTU of RFC 791 (576) without IP and UDP headers: never fragmented anywhere
MAX_PAYLOAD_BYTES = MAX_PACKET_BYTES - HEADER_BYTES
MAX_FIELD_BYTES = 255
MAX_FIELDS = 64  # MAX_TLV_COUNT, those inside 11 included: bounds the work one packet can ask for

HELLO_SUBJECT = "mesh.emm.hello"
HEARTBEAT_SUBJECT = "mesh.emm.heartbeat"
PRESENCE_PREFIX = "mesh.emm"
"""Only hello and heartbeat packets may become subjects under it: an event that names itself so is refused."""


class Flag(IntFlag):
    URGENT = 0x01
    ENCRYPTED = 0x02
    COMPRESSED = 0x04


RESERVED_FLAGS = 0xF8


class EventType(IntEnum):
    HELLO = 1
    HEARTBEAT = 2
    EVENT = 3


class FieldType(IntEnum):
    STRING = 0x01
    INTEGER = 0x02
    FLOAT = 0x03
    BINARY = 0x04
    JSON = 0x05
    HMAC = 0x10
    ENCRYPTION = 0x11
    SIGNATURE = 0x12
    PUBLIC_KEY = 0x13
    NODE_ID = 0x14
    TIMESTAMP = 0x15
    NONCE = 0x16
    KEY_IDENTIFIER = 0x17
    AUTH_KEY_ID = 0x18


class SubType(IntEnum):
    """The fields inside 11, Encryption Metadata."""

    ALGORITHM = 0x01
    IV_LENGTH = 0x02
    IV = 0x03
    NONCE = 0x04
    KEY_IDENTIFIER = 0x05


class Algorithm(IntEnum):
    AES_256_GCM = 1
    CHACHA20_POLY1305 = 2

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


DATA_TYPES = frozenset(range(FieldType.STRING, FieldType.JSON + 1))
SINGLETONS = frozenset(range(FieldType.HMAC, FieldType.AUTH_KEY_ID + 1))
TAG_TYPES = frozenset({FieldType.HMAC, FieldType.SIGNATURE})
SECURITY_ORDER = (FieldType.PUBLIC_KEY, FieldType.AUTH_KEY_ID, FieldType.HMAC, FieldType.SIGNATURE)

VALUE_BYTES: dict[int, int] = {
    FieldType.INTEGER: 4,
    FieldType.FLOAT: 4,
    FieldType.HMAC: 32,
    FieldType.SIGNATURE: 64,
    FieldType.PUBLIC_KEY: 32,
    FieldType.NODE_ID: 16,
    FieldType.TIMESTAMP: 8,
    FieldType.NONCE: 12,
    FieldType.KEY_IDENTIFIER: 16,
    FieldType.AUTH_KEY_ID: 4,
}
SUB_VALUE_BYTES: dict[int, int] = {
    SubType.ALGORITHM: 1,
    SubType.IV_LENGTH: 1,
    SubType.IV: 12,
    SubType.NONCE: 12,
    SubType.KEY_IDENTIFIER: 16,
}
NONCE_FIELD: dict[int, SubType] = {Algorithm.AES_256_GCM: SubType.IV, Algorithm.CHACHA20_POLY1305: SubType.NONCE}


@dataclass(frozen=True, slots=True)
class Field:
    """One TLV field. `type` is a plain number, because unknown types take part in what is signed."""

    type: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Header:
    message_id: bytes
    flags: int
    event_type: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet as it stood on the wire: `fields` in wire order, as pieces, not joined."""

    header: Header
    fields: tuple[Field, ...]
    raw: bytes = field(repr=False, compare=False)

    def value(self, kind: int) -> bytes | None:
        """Returns the value of a singleton, or of the first field of this type."""
        for item in self.fields:
            if item.type == kind:
                return item.value
        return None

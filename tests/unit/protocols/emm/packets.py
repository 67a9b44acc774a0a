"""Packets made for a test: any fields in any order, with tags that are true of them."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.wire import U8, U16, U64
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType, Header, Packet
from gateway.protocols.emm.signing import Signer
from tests.unit.protocols.emm.vectors import KEY_ID, MESSAGE_ID, NODE, SECRET, TIMESTAMP

NAME = Field(FieldType.STRING, b"temp.high")
NODE_ID = Field(FieldType.NODE_ID, NODE)
AUTH_KEY_ID = Field(FieldType.AUTH_KEY_ID, KEY_ID)
BY_HMAC = Signer(NODE, KEY_ID, SECRET)


def packet(
    *fields: Field,
    flags: int = 0,
    event_type: int = EventType.EVENT,
    timestamp: int = TIMESTAMP,
    message_id: bytes = MESSAGE_ID,
    signer: Signer | None = None,
) -> bytes:
    """The fields as they are given, then the signer's tags (its node and key id are the caller's to give)."""
    payload = codec.encode_fields(fields)
    size = len(payload) + (signer.tags_bytes if signer else 0)
    header = U8.pack(1) + message_id + U8.pack(flags) + U8.pack(event_type) + U64.pack(timestamp) + U16.pack(size)
    tags = signer.tags(signed(header, fields)) if signer else []
    return header + payload + codec.encode_fields(tags)


def signed(header: bytes, fields: Sequence[Field]) -> bytes:
    return codec.canonical(Packet(Header(b"", 0, 0, 0), tuple(fields), header))


def event(*fields: Field, signer: Signer = BY_HMAC, timestamp: int = TIMESTAMP) -> bytes:
    """A packet of the minimum profile with these data fields, authenticated."""
    return packet(NAME, *fields, NODE_ID, AUTH_KEY_ID, signer=signer, timestamp=timestamp)

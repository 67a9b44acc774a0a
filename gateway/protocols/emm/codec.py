"""Bytes ↔ packets, stateless. What a packet may say beyond its shape is judged by `rules`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U8, U16, U64, WireReader
from gateway.protocols.emm.frames import (
    HEADER_BYTES,
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    MAX_PAYLOAD_BYTES,
    RESERVED_FLAGS,
    SECURITY_ORDER,
    TAG_TYPES,
    VALUE_BYTES,
    VERSION,
    EventType,
    Field,
    FieldType,
    Header,
    Packet,
)
from gateway.protocols.emm.signing import Signer

_SECURITY_RANK: dict[int, int] = {kind: 256 + rank for rank, kind in enumerate(SECURITY_ORDER)}


def decode(raw: bytes, *, ignore_reserved: bool = False) -> Packet:
    """Returns the packet in a datagram (6.2, steps 2 to 6): its shape only, nothing about it is trusted."""
    reader = WireReader(raw)
    header = _decode_header(reader, ignore_reserved)
    return Packet(header, tuple(decode_fields(reader)), raw)


def _decode_header(reader: WireReader, ignore_reserved: bool) -> Header:
    if reader.remaining < HEADER_BYTES:
        raise Rejected(Reason.TRUNCATED, f"{reader.remaining} bytes are no header")
    if (version := reader.u8()) != VERSION:
        raise Rejected(Reason.UNSUPPORTED_VERSION, f"version {version}")
    message_id, flags, event_type, timestamp = reader.take(4), reader.u8(), reader.u8(), reader.u64()
    # 2.3 says "ignore", 6.3 says "reject": the listener's policy decides.
    if flags & RESERVED_FLAGS and not ignore_reserved:
        raise Rejected(Reason.RESERVED_FLAGS, f"flags {flags:#04x}")
    _check_length(reader.u16(), reader.remaining)
    return Header(message_id, flags, event_type, timestamp)


def _check_length(announced: int, actual: int) -> None:
    if announced > MAX_PAYLOAD_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"Payload Length {announced}, at most {MAX_PAYLOAD_BYTES}")
    if actual != announced:
        reason = Reason.TRUNCATED if actual < announced else Reason.MALFORMED
        raise Rejected(reason, f"Payload Length {announced}, {actual} bytes given")


def decode_fields(reader: WireReader) -> Iterator[Field]:
    """Yields all fields up to the reader's end. A field that overruns it is refused."""
    count = 0
    while reader.remaining:
        count += 1
        if count > MAX_FIELDS:
            raise Rejected(Reason.TLV_COUNT, f"more than {MAX_FIELDS} fields")
        yield Field(reader.u8(), reader.take(reader.u8()))


def encode_fields(fields: Iterable[Field]) -> bytes:
    return b"".join(U8.pack(item.type) + U8.pack(len(item.value)) + item.value for item in fields)


def canonical(packet: Packet) -> bytes:
    """Returns the bytes that HMAC and signature cover.

    These are the header as sent (its Payload Length counts fields 10 and 12 too), then all fields but those two,
    sorted.
    """
    return _canonical(packet.raw[:HEADER_BYTES], packet.fields)


def _canonical(header: bytes, fields: Iterable[Field]) -> bytes:
    signed = (_canonical_field(item) for item in fields if item.type not in TAG_TYPES)
    return header + encode_fields(_sorted(signed))


def _canonical_field(item: Field) -> Field:
    if item.type != FieldType.ENCRYPTION:
        return item
    return Field(item.type, encode_fields(_sorted(decode_fields(WireReader(item.value)))))


def _sorted(fields: Iterable[Field]) -> list[Field]:
    """Returns the fields by type; equal ones keep their order."""
    return sorted(fields, key=lambda item: item.type)


def join_values(fields: Iterable[Field]) -> Iterator[Field]:
    """Yields the fields with long values joined. A piece of 255 bytes goes on in the next field of its type."""
    pending: Field | None = None
    goes_on = False
    for item in fields:
        if pending is not None and goes_on and item.type == pending.type:
            pending = Field(pending.type, pending.value + item.value)
        else:
            if pending is not None:
                yield pending
            pending = item
        goes_on = len(item.value) == MAX_FIELD_BYTES
    if pending is not None:
        yield pending


def split_value(kind: int, value: bytes) -> list[Field]:
    """Returns the inverse of `join_values`: a last piece of exactly 255 bytes is closed by an empty one."""
    starts = range(0, len(value) + 1, MAX_FIELD_BYTES)
    return [Field(kind, value[start : start + MAX_FIELD_BYTES]) for start in starts]


@dataclass(frozen=True, slots=True)
class Draft:
    """A packet to be: `fields` are whole values, any order; node, keys and tags are added by `encode`."""

    message_id: bytes
    timestamp: int
    fields: tuple[Field, ...] = ()
    event_type: int = EventType.EVENT
    flags: int = 0

    @property
    def sealed_header(self) -> bytes:
        """The header without Payload Length. It is known before the payload is."""
        head = U8.pack(VERSION) + self.message_id + U8.pack(self.flags) + U8.pack(self.event_type)
        return head + U64.pack(self.timestamp)


def encode(draft: Draft, signer: Signer | None = None) -> bytes:
    """Returns the packet of 6.1: fields in their order, then keys and tags over the canonical bytes."""
    fields = _wire_order([*draft.fields, *(signer.fields() if signer else ())])
    payload = encode_fields(fields)
    size = len(payload) + (signer.tags_bytes if signer else 0)
    if size > MAX_PAYLOAD_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"a payload of {size} bytes, at most {MAX_PAYLOAD_BYTES}")
    header = draft.sealed_header + U16.pack(size)
    if signer is None:
        return header + payload
    return header + payload + encode_fields(signer.tags(_canonical(header, fields)))


def _wire_order(whole: list[Field]) -> tuple[Field, ...]:
    """Data and context ascending, the security fields last and in their own order (6.1, step 2)."""
    whole.sort(key=lambda item: _SECURITY_RANK.get(item.type, item.type))
    return tuple(
        piece
        for item in whole
        for piece in ([item] if item.type in VALUE_BYTES else split_value(item.type, item.value))
    )

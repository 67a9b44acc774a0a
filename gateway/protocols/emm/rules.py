"""The rules that a packet must obey (4.2, 6.3), before any key is looked at. Each function is one rule."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core.content import JSON_DECODER, MAX_DEPTH, from_json
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import WireReader, decode_utf8
from gateway.protocols.emm.codec import decode_fields, join_values
from gateway.protocols.emm.frames import (
    MAX_FIELDS,
    NONCE_FIELD,
    SINGLETONS,
    SUB_VALUE_BYTES,
    TAG_TYPES,
    VALUE_BYTES,
    EventType,
    Field,
    FieldType,
    Flag,
    Packet,
    SubType,
)


def check(packet: Packet) -> None:
    """Raises Rejected at the first rule that is broken."""
    check_singletons(packet)
    check_order(packet)
    check_value_lengths(packet)
    check_encryption(packet)
    check_encodings(packet)
    check_required(packet)


def check_singletons(packet: Packet) -> None:
    seen_types: set[int] = set()
    for item in packet.fields:
        if item.type in seen_types and item.type in SINGLETONS:
            raise Rejected(Reason.TLV_DUPLICATE, f"field {item.type:#04x} stands twice")
        seen_types.add(item.type)


def check_order(packet: Packet) -> None:
    """Requires that a signature is the last field, so that neither 10 nor 13 follows it. All else is sorted anyway."""
    if any(item.type == FieldType.SIGNATURE for item in packet.fields[:-1]):
        raise Rejected(Reason.TLV_ORDER, "a field after the signature")


def check_value_lengths(packet: Packet) -> None:
    for item in packet.fields:
        _check_value_length(item, VALUE_BYTES.get(item.type))


def _check_value_length(item: Field, expected: int | None) -> None:
    if expected is not None and len(item.value) != expected:
        raise Rejected(Reason.MALFORMED, f"field {item.type:#04x} of {len(item.value)} bytes, not {expected}")


def check_encryption(packet: Packet) -> None:
    metadata = packet.value(FieldType.ENCRYPTION)
    if metadata is not None:
        _check_metadata(metadata, len(packet.fields))
    elif packet.header.flags & Flag.ENCRYPTED:
        raise Rejected(Reason.MISSING_FIELD, "encrypted, but without Encryption Metadata")


def _check_metadata(metadata: bytes, outer_fields: int) -> None:
    """Checks the algorithm, and that it has its own one of IV and nonce (4.2.1)."""
    fields = list(decode_fields(WireReader(metadata)))
    if outer_fields + len(fields) > MAX_FIELDS:
        raise Rejected(Reason.TLV_COUNT, f"more than {MAX_FIELDS} fields with those of Encryption Metadata")
    values = {item.type: item.value for item in fields}
    if len(values) != len(fields):
        raise Rejected(Reason.MALFORMED, "Encryption Metadata says something twice")
    for item in fields:
        _check_value_length(item, SUB_VALUE_BYTES.get(item.type))
    _check_nonce(values)


def _check_nonce(values: dict[int, bytes]) -> None:
    if SubType.ALGORITHM not in values:
        raise Rejected(Reason.MISSING_FIELD, "Encryption Metadata names no algorithm")
    nonce_field = NONCE_FIELD.get(values[SubType.ALGORITHM][0])
    if nonce_field is None:
        raise Rejected(Reason.MALFORMED, f"unknown encryption algorithm {values[SubType.ALGORITHM][0]}")
    if {SubType.IV, SubType.NONCE} & values.keys() != {nonce_field}:
        raise Rejected(Reason.MALFORMED, "Encryption Metadata needs the IV or the nonce, as its algorithm says")
    length = values.get(SubType.IV_LENGTH)
    if length is not None and length[0] != len(values.get(SubType.IV, b"")):  # its top bit thereby is 0
        raise Rejected(Reason.MALFORMED, "the IV is not as long as its Length says")


def check_encodings(packet: Packet) -> None:
    for item in join_values(packet.fields):
        check_encoding(item.type, item.value)


def check_encoding(kind: int, value: bytes) -> None:
    check = _ENCODINGS.get(kind)
    if check is not None:
        check(value)


def _check_json(value: bytes) -> None:
    text = decode_utf8(value).strip(_JSON_WHITESPACE)
    try:
        _, end = JSON_DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise Rejected(Reason.BAD_ENCODING, f"not JSON: {type(error).__name__}") from None
    if end != len(text):
        raise Rejected(Reason.BAD_ENCODING, "more than one JSON value")
    if text.count("[") + text.count("{") > MAX_DEPTH:
        from_json(value)  # which walks the value to see how deep it really is


_JSON_WHITESPACE = " \t\n\r"
_ENCODINGS: dict[int, Callable[[bytes], object]] = {FieldType.STRING: decode_utf8, FieldType.JSON: _check_json}


def check_required(packet: Packet) -> None:
    """Requires the fields that each event type cannot do without (3.1). Unknown types need nothing."""
    kinds = {item.type for item in packet.fields}
    event_type = packet.header.event_type
    if FieldType.NODE_ID not in kinds and (kinds & TAG_TYPES or event_type in (EventType.HELLO, EventType.HEARTBEAT)):
        raise Rejected(Reason.MISSING_NODE, "no NODE ID")
    required_field = _REQUIRED.get(event_type)
    if required_field is not None and required_field not in kinds:
        raise Rejected(Reason.MISSING_FIELD, f"event type {event_type} without field {required_field:#04x}")


_REQUIRED: dict[int, FieldType] = {
    EventType.HELLO: FieldType.BINARY,
    EventType.HEARTBEAT: FieldType.TIMESTAMP,
    EventType.EVENT: FieldType.STRING,
}

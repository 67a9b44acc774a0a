"""Tests what makes a packet no packet: 6.3 of the text and the settlements on it, a case for each rule."""

from __future__ import annotations

import pytest

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U16
from gateway.protocols.emm.frames import (
    MAX_FIELDS,
    MAX_PACKET_BYTES,
    VALUE_BYTES,
    EventType,
    Field,
    FieldType,
    Flag,
)
from gateway.protocols.emm.options import EmmOptions
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, NAME, NODE_ID, packet
from tests.unit.protocols.emm.vectors import E1, E2, E3, E4, E5, E6, OPEN, receive

HMAC = Field(FieldType.HMAC, bytes(32))
SIGNATURE = Field(FieldType.SIGNATURE, bytes(64))
STAMP = Field(FieldType.TIMESTAMP, bytes(8))
PUBLIC_KEY = Field(FieldType.PUBLIC_KEY, bytes(32))
METADATA = bytes.fromhex("01010102010c030ca0a1a2a3a4a5a6a7a8a9aaab")
NONCE = bytes.fromhex("040ca0a1a2a3a4a5a6a7a8a9aaab")


def put(data: bytes, at: int, octets: str) -> bytes:
    new = bytes.fromhex(octets)
    return data[:at] + new + data[at + len(new) :]


def metadata(*parts: str) -> bytes:
    return packet(NAME, Field(FieldType.ENCRYPTION, bytes.fromhex("".join(parts))))


def why(data: bytes, options: EmmOptions = OPEN) -> Reason:
    with pytest.raises(Rejected) as refused:
        receive(data, options)
    return refused.value.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", Reason.TRUNCATED, id="nothing"),
        pytest.param(E1[:16], Reason.TRUNCATED, id="a header less a byte"),
        pytest.param(put(E1, 0, "02"), Reason.UNSUPPORTED_VERSION, id="version 2"),
        pytest.param(put(E1, 0, "00"), Reason.UNSUPPORTED_VERSION, id="version 0"),
        pytest.param(put(E1, 5, "08"), Reason.RESERVED_FLAGS, id="flag 08"),
        pytest.param(put(E1, 5, "80"), Reason.RESERVED_FLAGS, id="flag 80"),
        pytest.param(E1[:-1], Reason.TRUNCATED, id="one byte less"),
        pytest.param(E1 + b"\0", Reason.MALFORMED, id="one byte more"),
        pytest.param(put(E1, 15, "0214"), Reason.TOO_LARGE, id="Payload Length 532"),
        pytest.param(put(E1, 15, "ffff"), Reason.TOO_LARGE, id="Payload Length 65535"),
        pytest.param(put(E1, 18, "ff"), Reason.TRUNCATED, id="a field that overruns the payload"),
        pytest.param(packet(NAME)[:-9] + b"", Reason.TRUNCATED, id="a field cut off"),
        pytest.param(put(packet(NAME, Field(0x7F, b"")), 29, "01"), Reason.TRUNCATED, id="a value that is not there"),
        pytest.param(packet(NAME, *[Field(4, b"")] * 64), Reason.TLV_COUNT, id="65 fields"),
        pytest.param(packet(*[Field(4, b"")] * 65), Reason.TLV_COUNT, id="65 empty 04"),
        pytest.param(packet(NAME, NODE_ID, AUTH_KEY_ID, AUTH_KEY_ID, HMAC), Reason.TLV_DUPLICATE, id="a second 18"),
        pytest.param(packet(NAME, NODE_ID, SIGNATURE, SIGNATURE), Reason.TLV_DUPLICATE, id="a second 12"),
        pytest.param(packet(NAME, NODE_ID, SIGNATURE, AUTH_KEY_ID), Reason.TLV_ORDER, id="a field after 12"),
        pytest.param(packet(NAME, NODE_ID, SIGNATURE, HMAC), Reason.TLV_ORDER, id="10 after 12"),
        pytest.param(packet(NAME, NODE_ID, SIGNATURE, PUBLIC_KEY), Reason.TLV_ORDER, id="13 after 12"),
        pytest.param(
            packet(NAME, NODE_ID, SIGNATURE, Field(0x7F, b"")), Reason.TLV_ORDER, id="an unknown field after 12"
        ),
        pytest.param(packet(Field(1, b"A\xff")), Reason.BAD_ENCODING, id="01 is no UTF-8"),
        pytest.param(packet(NAME, Field(5, b"\xff")), Reason.BAD_ENCODING, id="05 is no UTF-8"),
        pytest.param(packet(NAME, Field(5, b"{")), Reason.BAD_ENCODING, id="05 is no JSON"),
        pytest.param(packet(NAME, Field(5, b"")), Reason.BAD_ENCODING, id="05 is empty"),
        pytest.param(packet(NAME, Field(5, b"1 2")), Reason.BAD_ENCODING, id="05 is JSON twice"),
        pytest.param(packet(NAME, Field(5, b"NaN")), Reason.BAD_ENCODING, id="05 is NaN"),
        pytest.param(packet(NAME, Field(5, b"1\0")), Reason.BAD_ENCODING, id="05 is UTF-16"),
        pytest.param(
            packet(NAME, Field(5, b"\xa0 1".decode("latin1").encode())), Reason.BAD_ENCODING, id="05 in odd space"
        ),
        pytest.param(packet(NAME, NODE_ID, flags=Flag.ENCRYPTED), Reason.MISSING_FIELD, id="encrypted without 11"),
        pytest.param(packet(Field(4, b"")), Reason.MISSING_FIELD, id="an event without a name"),
        pytest.param(packet(Field(1, b"")), Reason.MISSING_FIELD, id="an event with an empty name"),
        pytest.param(packet(NODE_ID, event_type=EventType.HELLO), Reason.MISSING_FIELD, id="hello without 04"),
        pytest.param(packet(NODE_ID, event_type=EventType.HEARTBEAT), Reason.MISSING_FIELD, id="heartbeat without 15"),
        pytest.param(packet(Field(4, b""), event_type=EventType.HELLO), Reason.MISSING_NODE, id="hello without 14"),
        pytest.param(
            packet(STAMP, event_type=EventType.HEARTBEAT),
            Reason.MISSING_NODE,
            id="heartbeat without 14",
        ),
        pytest.param(packet(NAME, HMAC), Reason.MISSING_NODE, id="HMAC without 14"),
        pytest.param(packet(NAME, SIGNATURE), Reason.MISSING_NODE, id="signature without 14"),
        pytest.param(packet(Field(1, b"mesh.emm.hello")), Reason.FORBIDDEN, id="an event that calls itself hello"),
        pytest.param(
            packet(Field(1, b"Mesh/EMM/heartbeat")), Reason.FORBIDDEN, id="an event that calls itself heartbeat"
        ),
    ],
)
def test_a_packet_that_breaks_a_rule_is_refused_for_it(data: bytes, reason: Reason) -> None:
    assert why(data) is reason


@pytest.mark.parametrize("kind", VALUE_BYTES, ids=lambda kind: f"{kind:02x}")
@pytest.mark.parametrize("change", [-1, 1])
def test_a_value_of_fixed_length_has_no_other(kind: int, change: int) -> None:
    odd = Field(kind, bytes(VALUE_BYTES[kind] + change))
    assert why(packet(NAME, odd)) is Reason.MALFORMED


@pytest.mark.parametrize("kind", range(0x10, 0x19), ids=lambda kind: f"{kind:02x}")
def test_a_singleton_stands_once(kind: int) -> None:
    twice = [Field(kind, METADATA if kind == FieldType.ENCRYPTION else bytes(VALUE_BYTES[kind]))] * 2
    assert why(packet(NAME, *twice)) is Reason.TLV_DUPLICATE


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(metadata("030ca0a1a2a3a4a5a6a7a8a9aaab"), Reason.MISSING_FIELD, id="no algorithm"),
        pytest.param(metadata("010103", NONCE.hex()), Reason.MALFORMED, id="an unknown algorithm"),
        pytest.param(metadata("010101"), Reason.MALFORMED, id="neither IV nor nonce"),
        pytest.param(metadata(METADATA.hex(), NONCE.hex()), Reason.MALFORMED, id="IV and nonce"),
        pytest.param(metadata("010101", NONCE.hex()), Reason.MALFORMED, id="AES-256-GCM with a nonce"),
        pytest.param(metadata("010102030ca0a1a2a3a4a5a6a7a8a9aaab"), Reason.MALFORMED, id="ChaCha20 with an IV"),
        pytest.param(metadata("010101010101", METADATA.hex()[6:]), Reason.MALFORMED, id="the algorithm twice"),
        pytest.param(metadata("01010102010d030ca0a1a2a3a4a5a6a7a8a9aaab"), Reason.MALFORMED, id="02 = 13, IV of 12"),
        pytest.param(metadata("01010102018c030ca0a1a2a3a4a5a6a7a8a9aaab"), Reason.MALFORMED, id="02 with its top bit"),
        pytest.param(metadata("01010202010c", NONCE.hex()), Reason.MALFORMED, id="02 without IV"),
        pytest.param(metadata("01010102010b030ba0a1a2a3a4a5a6a7a8a9aa"), Reason.MALFORMED, id="an IV of 11"),
        pytest.param(metadata("010102040ba0a1a2a3a4a5a6a7a8a9aa"), Reason.MALFORMED, id="a nonce of 11"),
        pytest.param(metadata("01020101", METADATA.hex()[6:]), Reason.MALFORMED, id="an algorithm of 2 bytes"),
        pytest.param(
            metadata(METADATA.hex(), "050fa0a1a2a3a4a5a6a7a8a9aaabacadae"), Reason.MALFORMED, id="a key id of 15"
        ),
        pytest.param(metadata("01010102010c030da0a1a2a3a4a5a6a7a8a9aaab"), Reason.TRUNCATED, id="an overrun"),
        pytest.param(metadata(METADATA.hex(), "06"), Reason.TRUNCATED, id="half a head"),
    ],
)
def test_broken_encryption_metadata_is_refused_whether_it_is_needed_or_not(data: bytes, reason: Reason) -> None:
    assert why(data) is reason
    assert why(put(data, 5, "02")) is reason


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(metadata("010102", NONCE.hex()), id="ChaCha20-Poly1305"),
        pytest.param(metadata("01010103", "0ca0a1a2a3a4a5a6a7a8a9aaab"), id="without 02"),
        pytest.param(metadata("030ca0a1a2a3a4a5a6a7a8a9aaab", "02010c", "010101"), id="in any order"),
        pytest.param(metadata(METADATA.hex(), "0900"), id="with a field nobody knows"),
    ],
)
def test_other_encryption_metadata_is_accepted(data: bytes) -> None:
    assert receive(data, OPEN).subject == "temp.high"


def test_the_fields_inside_encryption_metadata_count() -> None:
    inside = Field(FieldType.ENCRYPTION, METADATA)
    assert receive(packet(NAME, *[Field(4, b"")] * (MAX_FIELDS - 5), inside), OPEN).subject == "temp.high"
    assert why(packet(NAME, *[Field(4, b"")] * (MAX_FIELDS - 4), inside)) is Reason.TLV_COUNT


def test_sixty_four_fields_are_accepted() -> None:
    assert receive(packet(NAME, *[Field(0x7F, b"")] * (MAX_FIELDS - 1)), OPEN).subject == "temp.high"


def test_a_packet_may_have_the_largest_size_and_no_more() -> None:
    full = Field(4, bytes(255))
    room = MAX_PACKET_BYTES - len(packet(NAME, full, full)) - 2
    largest = packet(NAME, full, full, Field(4, bytes(room)))
    assert len(largest) == MAX_PACKET_BYTES
    assert receive(largest, OPEN).body == bytes(255 + 255 + room)
    assert why(packet(NAME, full, full, Field(4, bytes(room + 1)))) is Reason.TOO_LARGE


def test_an_empty_payload_is_legal() -> None:
    event = receive(packet(event_type=9), OPEN)
    assert (event.subject, event.body, event.node) == ("emm.type.9", b"", "")


def test_reserved_flags_are_ignored_where_the_listener_says_so() -> None:
    ignore = EmmOptions(unauthenticated="accept", reserved_flags="ignore")
    event = receive(packet(NAME, flags=0xF8 | Flag.URGENT), ignore)
    assert event.urgent


@pytest.mark.parametrize("event_type", [0, 4, 255])
def test_an_unknown_event_type_is_an_event(event_type: int) -> None:
    event = receive(packet(NAME, event_type=event_type), OPEN)
    assert (event.subject, event.body) == (f"emm.type.{event_type}", b"temp.high")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param((NODE_ID, NAME), id="14 before 01"),
        pytest.param((Field(0x7F, b"?"), NAME, Field(0, b"?")), id="unknown ones anywhere"),
        pytest.param((Field(4, b""), NAME), id="04 before 01"),
    ],
)
def test_other_orders_are_accepted(fields: tuple[Field, ...]) -> None:
    assert receive(packet(*fields), OPEN).subject == "temp.high"


@pytest.mark.parametrize("value", [b"1", b' {"a": [1, null]}\n', '"ö"'.encode(), b'"\\ud800"', b"[" * 64 + b"]" * 64])
def test_any_json_value_will_do(value: bytes) -> None:
    assert receive(packet(NAME, Field(5, value)), OPEN).body == value


def test_json_nested_too_deep_is_refused() -> None:
    assert why(packet(NAME, Field(5, b"[" * 66 + b"]" * 66))) is Reason.UNTRANSLATABLE


def test_many_brackets_side_by_side_are_not_deep() -> None:
    value = b"[" + b"[]," * 80 + b"[]]"
    assert receive(packet(NAME, Field(5, value)), OPEN).body == value


@pytest.mark.parametrize("data", [E1, E2, E3, E4, E5, E6], ids=["E1", "E2", "E3", "E4", "E5", "E6"])
def test_every_shorter_packet_is_refused(data: bytes) -> None:
    for size in range(len(data)):
        cut = data[:size]
        assert why(cut) is Reason.TRUNCATED
        if size >= 17:  # with its Payload Length made to fit
            with_length = put(cut, 15, U16.pack(size - 17).hex())
            with pytest.raises(Rejected):
                receive(with_length)

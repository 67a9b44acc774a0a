"""Bytes ↔ packets: order, long values, canonical bytes, round trips."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U16
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import HEADER_BYTES, MAX_PACKET_BYTES, VALUE_BYTES, Field, FieldType, Flag
from gateway.protocols.emm.signing import Signer
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, NAME, NODE_ID, packet, signed
from tests.unit.protocols.emm.vectors import (
    E3,
    KEY_ID,
    MESSAGE_ID,
    NODE,
    OPEN,
    SECRET,
    SEED,
    SIGNER,
    TIMESTAMP,
    receive,
)

FIELDS = st.builds(Field, st.sampled_from([1, 2, 3, 4, 5, 0x14, 0x15, 0x7F]), st.binary(max_size=20))


def draft(*fields: Field, flags: int = 0) -> codec.Draft:
    return codec.Draft(MESSAGE_ID, TIMESTAMP, fields, flags=flags)


def kinds(data: bytes) -> list[int]:
    return [item.type for item in codec.decode(data).fields]


def test_fields_are_written_in_the_order_of_the_text() -> None:
    fields = (Field(0x7F, b""), Field(0x15, bytes(8)), Field(5, b"1"), NAME, Field(4, b""))
    data = codec.encode(draft(*fields), Signer(NODE, KEY_ID, SECRET, SEED, announce=True))
    assert kinds(data) == [0x01, 0x04, 0x05, 0x14, 0x15, 0x7F, 0x13, 0x18, 0x10, 0x12]


def test_fields_of_one_type_keep_their_order() -> None:
    data = codec.encode(draft(NAME, Field(4, b"b"), Field(1, b"second"), Field(4, b"a")))
    assert [item.value for item in codec.decode(data).fields] == [b"temp.high", b"second", b"b", b"a"]


def test_payload_length_counts_the_tags_too() -> None:
    data = codec.encode(draft(NAME), SIGNER)
    assert int.from_bytes(data[15:17]) == len(data) - HEADER_BYTES
    assert codec.canonical(codec.decode(data))[:HEADER_BYTES] == data[:HEADER_BYTES]


def test_canonical_bytes_are_sorted_and_stable_and_leave_out_the_tags() -> None:
    first, second = Field(4, b"b"), Field(4, b"a")
    least, most = Field(0, b""), Field(0x7F, b"x")
    fields = [NODE_ID, Field(0x10, bytes(32)), first, most, second, Field(0x12, bytes(64)), least]
    assert signed(b"", fields) == codec.encode_fields([least, first, second, NODE_ID, most])


def test_public_key_sorts_before_the_node() -> None:
    key, node = Field(0x13, bytes(32)), NODE_ID
    assert signed(b"", [node, key]) == codec.encode_fields([key, node])


def test_fields_inside_encryption_metadata_are_sorted_by_the_same_rule() -> None:
    tangled = Field(FieldType.ENCRYPTION, bytes.fromhex("0302aabb0901ff0101010901ee"))
    assert signed(b"", [tangled]).hex() == "110d" + "010101" + "0302aabb" + "0901ff" + "0901ee"


def test_only_whole_fields_10_and_12_leave() -> None:
    """Inside 11 those numbers mean nothing."""
    inner = Field(FieldType.ENCRYPTION, bytes.fromhex("1001aa1201bb"))
    assert signed(b"", [inner]) == codec.encode_fields([inner])


@pytest.mark.parametrize(
    ("size", "pieces"), [(0, [0]), (1, [1]), (254, [254]), (255, [255, 0]), (256, [255, 1]), (510, [255, 255, 0])]
)
def test_a_long_value_is_split_and_joined_again(size: int, pieces: list[int]) -> None:
    value = bytes(range(256)) * 2
    fields = codec.split_value(FieldType.BINARY, value[:size])
    assert [len(item.value) for item in fields] == pieces
    assert list(codec.join_values(fields)) == [Field(FieldType.BINARY, value[:size])]


def test_a_value_of_255_bytes_that_nothing_follows_is_whole() -> None:
    full = Field(4, bytes(255))
    assert list(codec.join_values([full])) == [full]
    assert list(codec.join_values([full, NODE_ID])) == [full, NODE_ID]


def test_short_neighbours_of_one_type_are_values_of_their_own() -> None:
    fields = [Field(1, b"a"), Field(1, b"b"), Field(4, bytes(254)), Field(4, b"c")]
    assert list(codec.join_values(fields)) == fields


def test_a_text_that_is_split_within_a_character_is_one_text() -> None:
    text = "x" * 254 + "ö" + "y"
    event = receive(codec.encode(draft(Field(1, b"temp"), Field(1, text.encode())), Signer(NODE)), OPEN)
    assert (event.subject, event.text) == ("temp", text)


@given(st.lists(st.tuples(st.sampled_from([1, 4, 5, 0x7F]), st.binary(max_size=600))))
@settings(max_examples=100, deadline=None)
def test_whole_values_survive_splitting_and_joining(values: list[tuple[int, bytes]]) -> None:
    whole = [Field(kind, value) for kind, value in values]
    pieces = [piece for item in whole for piece in codec.split_value(item.type, item.value)]
    assert list(codec.join_values(pieces)) == whole


def test_a_packet_holds_the_largest_payload_and_no_more() -> None:
    room = MAX_PACKET_BYTES - len(codec.encode(draft(NAME, Field(4, b"")), SIGNER)) - 2
    assert len(codec.encode(draft(NAME, Field(4, bytes(room))), SIGNER)) == MAX_PACKET_BYTES
    with pytest.raises(Rejected) as refused:
        codec.encode(draft(NAME, Field(4, bytes(room + 1))), SIGNER)
    assert refused.value.reason is Reason.TOO_LARGE


def test_the_header_is_written_as_it_was_asked_for() -> None:
    header = codec.decode(codec.encode(draft(NAME, flags=Flag.URGENT))).header
    assert (header.message_id, header.timestamp, header.flags) == (MESSAGE_ID, TIMESTAMP, Flag.URGENT)


@given(st.lists(FIELDS, max_size=8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_what_is_encoded_is_decoded(fields: list[Field], signs: bool) -> None:
    data = codec.encode(draft(*fields), SIGNER if signs else None)
    found = [item for item in codec.decode(data).fields if item not in (AUTH_KEY_ID,) and item.type not in (0x10, 0x12)]
    wanted = [*fields, NODE_ID] if signs else fields
    assert found == sorted(wanted, key=lambda item: item.type)


@given(st.binary(max_size=600))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_packet_or_refused(data: bytes) -> None:
    with_head = b"\1" + data[1:5] + b"\0" + data[6:15] + U16.pack(max(len(data) - 17, 0)) + data[17:]
    for given_bytes in (data, with_head):
        with suppress(Rejected):
            receive(given_bytes, OPEN)


def test_a_packet_with_any_number_of_unknown_fields_keeps_its_signature() -> None:
    unknown = Field(0x7F, b"new")
    assert receive(packet(NAME, NODE_ID, unknown, AUTH_KEY_ID, signer=SIGNER)).subject == "temp.high"


def test_every_fixed_value_length_is_one_that_fits_a_field() -> None:
    assert all(size <= 255 for size in VALUE_BYTES.values())
    assert len(codec.decode(E3).fields) == 7

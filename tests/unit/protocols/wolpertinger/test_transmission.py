"""One layer-1 message at a time: metadata, base64, AES, gzip, splitting."""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.cipher import Cipher
from gateway.protocols.wolpertinger.fragments import Fragments
from gateway.protocols.wolpertinger.frames import (
    BadTransmission,
    Confirmation,
    Piece,
    Result,
)
from gateway.protocols.wolpertinger.transmission import decode, encode, encode_confirmation, pack, unpack
from tests.unit.protocols.wolpertinger.talk import VECTOR_CIPHER

LIMIT = 1_000_000

VECTORS = [
    pytest.param(b"message_id:1;aGVsbG8=", b"hello", id="plain"),
    pytest.param(b"message_id:30;encryption:aes;BGjxpSaepyRbuExk1FbpTQ==", b"hello", id="encrypted"),
    pytest.param(
        b"message_id:31;encryption:aes;gzip:38;oUDOFL0Sy8EeFKcomTnoAJVA6cTdrGjaRcTUeEuJKjdhgjlFsekRp4GKwTg8zE1c",
        b"hello wolpertinger",
        id="compressed and encrypted",
    ),
    pytest.param(
        b"gzip:38;encryption:AES;Message_ID:31;oUDOFL0Sy8EeFKcomTnoAJVA6cTdrGjaRcTUeEuJKjdhgjlFsekRp4GKwTg8zE1c",
        b"hello wolpertinger",
        id="another order and case",
    ),
    pytest.param(b"fragment_index:0;fragment_count:1;message_id:4294967295;aGVsbG8=", b"hello", id="one of one"),
    pytest.param(b"message_id:2;", b"", id="no payload"),
]


def whole(message: bytes) -> Piece:
    piece = decode(message)
    assert isinstance(piece, Piece)
    return piece


@pytest.mark.parametrize(("message", "payload"), VECTORS)
def test_a_message_unpacks_to_its_payload(message: bytes, payload: bytes) -> None:
    assert unpack(whole(message), VECTOR_CIPHER, LIMIT) == payload


def test_a_confirmation_is_read_in_any_order_and_case() -> None:
    expected = Confirmation(7, 5)
    assert decode(b"result:5;message_id:7;") == expected
    assert decode(b"MESSAGE_ID:7;Result:5;") == expected
    assert decode(encode_confirmation(7, Result.FORMAT)) == expected


DROPPED = [
    pytest.param(b"", Reason.MISSING_FIELD, id="nothing"),
    pytest.param(b"aGVsbG8=", Reason.MISSING_FIELD, id="no metadata"),
    pytest.param(b"gzip:3;aGVsbG8=", Reason.MISSING_FIELD, id="no message_id"),
    pytest.param(b"message_id:4294967296;aGVsbG8=", Reason.MISSING_FIELD, id="an id of 33 bits"),
    pytest.param(b"message_id:-1;aGVsbG8=", Reason.MISSING_FIELD, id="a negative id"),
    pytest.param(b"message_id:1_0;aGVsbG8=", Reason.MISSING_FIELD, id="an id as Python writes it"),
    pytest.param(b"message_id: 1;aGVsbG8=", Reason.MISSING_FIELD, id="a space"),
    pytest.param("message_id:١;".encode(), Reason.MISSING_FIELD, id="digits of another script"),
    pytest.param(b"message_id:;aGVsbG8=", Reason.MISSING_FIELD, id="an empty id"),
    pytest.param(b"message_id:1;message_id:1;aGVsbG8=", Reason.MALFORMED, id="an id twice"),
    pytest.param(b"message_id:1;MESSAGE_ID:2;aGVsbG8=", Reason.MALFORMED, id="an id twice, in another case"),
    pytest.param(b"message_id:1;secure:aes;aGVsbG8=", Reason.MALFORMED, id="an unknown key"),
    pytest.param(b"message_id:1;signature:xyz;aGVsbG8=", Reason.MALFORMED, id="a signature, to be specified"),
    pytest.param(b"message_id:1;gzip;aGVsbG8=", Reason.MALFORMED, id="no colon"),
    pytest.param(b"message_id:1;gzip:3:4;aGVsbG8=", Reason.MALFORMED, id="two colons"),
    pytest.param(b"message_id:1;;aGVsbG8=", Reason.MALFORMED, id="an empty pair"),
    pytest.param(b"result:0;", Reason.MISSING_FIELD, id="a result for nothing"),
    pytest.param(b"result:0;message_id:1;aGVsbG8=", Reason.MALFORMED, id="a confirmation with payload"),
    pytest.param(b"result:0;message_id:1;gzip:3;", Reason.MALFORMED, id="a compressed confirmation"),
    pytest.param(b"result:ok;message_id:1;", Reason.MALFORMED, id="a result that is no number"),
    pytest.param(b"message_id:1;" + b"gzip:1;" * 60, Reason.MALFORMED, id="a key sixty times"),
]


@pytest.mark.parametrize(("message", "reason"), DROPPED)
def test_what_can_be_answered_to_nobody_is_dropped(message: bytes, reason: Reason) -> None:
    with pytest.raises(Rejected) as raised:
        decode(message)
    assert (raised.type, raised.value.reason) == (Rejected, reason)


REFUSED = [
    pytest.param(b"message_id:6;gzip:abc;aGVsbG8=", Result.FORMAT, id="gzip of letters"),
    pytest.param(b"message_id:6;gzip:;aGVsbG8=", Result.FORMAT, id="gzip of nothing"),
    pytest.param(b"message_id:6;encryption:rot13;aGVsbG8=", Result.ENCRYPTION, id="another encryption"),
    pytest.param(b"message_id:9;fragment_count:2;fragment_index:2;bG8=", Result.SPLITTING, id="index = count"),
    pytest.param(b"message_id:9;fragment_count:2;aGVs", Result.SPLITTING, id="count alone"),
    pytest.param(b"message_id:9;fragment_index:0;aGVs", Result.SPLITTING, id="index alone"),
    pytest.param(b"message_id:9;fragment_count:0;fragment_index:0;", Result.SPLITTING, id="count 0"),
    pytest.param(b"message_id:9;fragment_count:1025;fragment_index:0;aGVs", Result.SPLITTING, id="count 1025"),
    pytest.param(b"message_id:9;fragment_count:two;fragment_index:0;aGVs", Result.SPLITTING, id="count in words"),
    pytest.param(b"message_id:9;fragment_count:2;fragment_index:-1;aGVs", Result.SPLITTING, id="index -1"),
]


@pytest.mark.parametrize(("message", "result"), REFUSED)
def test_metadata_that_lies_is_refused_with_its_result(message: bytes, result: Result) -> None:
    with pytest.raises(BadTransmission) as raised:
        decode(message)
    assert raised.value.result == result
    assert b"message_id:%d;" % raised.value.message_id in message


def test_the_largest_count_is_taken() -> None:
    assert whole(b"message_id:9;fragment_count:1024;fragment_index:1023;aGVs").count == 1024


def gzipped(data: bytes, length: int | None = None, message_id: int = 6) -> bytes:
    packed = base64.b64encode(data)
    return b"message_id:%d;gzip:%d;%s" % (message_id, len(data) if length is None else length, packed)


HELLO = gzip.compress(b"hello", mtime=0)
BOMB = gzip.compress(bytes(LIMIT + 1), mtime=0)
UNREADABLE = [
    pytest.param(b"message_id:6;aGVsbG8", Result.FORMAT, Reason.BAD_ENCODING, id="no padding"),
    pytest.param(b"message_id:6;aGVs bG8=", Result.FORMAT, Reason.BAD_ENCODING, id="a space"),
    pytest.param(b"message_id:6;aGVsbG8==", Result.FORMAT, Reason.BAD_ENCODING, id="too much padding"),
    pytest.param(b"message_id:6;aGV*bG8=", Result.FORMAT, Reason.BAD_ENCODING, id="a foreign character"),
    pytest.param("message_id:6;aGVsbG8é".encode(), Result.FORMAT, Reason.BAD_ENCODING, id="not ASCII"),
    pytest.param(b"message_id:6;foo:bar", Result.FORMAT, Reason.BAD_ENCODING, id="a pair that never ends"),
    pytest.param(gzipped(HELLO, len(HELLO) + 1), Result.FORMAT, Reason.MALFORMED, id="gzip longer than it is"),
    pytest.param(gzipped(HELLO, len(HELLO) - 1), Result.FORMAT, Reason.MALFORMED, id="gzip shorter than it is"),
    pytest.param(gzipped(b"hello"), Result.FORMAT, Reason.MALFORMED, id="no gzip at all"),
    pytest.param(gzipped(zlib.compress(b"hello")), Result.FORMAT, Reason.MALFORMED, id="zlib instead of gzip"),
    pytest.param(gzipped(HELLO[:-1]), Result.FORMAT, Reason.MALFORMED, id="gzip cut off"),
    pytest.param(gzipped(HELLO + b"more"), Result.FORMAT, Reason.MALFORMED, id="gzip that goes on"),
    pytest.param(gzipped(b""), Result.FORMAT, Reason.MALFORMED, id="gzip of no bytes"),
    pytest.param(gzipped(BOMB), Result.FORMAT, Reason.BOMB, id="one byte more than is let out"),
    pytest.param(b"message_id:6;encryption:aes;aGVsbG8=", Result.ENCRYPTION, Reason.BAD_CIPHERTEXT, id="no block"),
    pytest.param(b"message_id:6;encryption:aes;", Result.ENCRYPTION, Reason.BAD_CIPHERTEXT, id="no ciphertext"),
    pytest.param(
        b"message_id:6;encryption:aes;" + base64.b64encode(bytes(32)),
        Result.ENCRYPTION,
        Reason.BAD_CIPHERTEXT,
        id="wrong padding",
    ),
    pytest.param(
        b"message_id:31;encryption:aes;gzip:48;oUDOFL0Sy8EeFKcomTnoAJVA6cTdrGjaRcTUeEuJKjdhgjlFsekRp4GKwTg8zE1c",
        Result.ENCRYPTION,
        Reason.BAD_CIPHERTEXT,
        id="the length after encryption",
    ),
]


@pytest.mark.parametrize(("message", "result", "reason"), UNREADABLE)
def test_a_payload_that_does_not_unpack_is_refused_with_its_result(
    message: bytes, result: Result, reason: Reason
) -> None:
    piece = whole(message)
    with pytest.raises(BadTransmission) as raised:
        unpack(piece, VECTOR_CIPHER, LIMIT)
    assert (raised.value.result, raised.value.reason) == (result, reason)
    assert raised.value.message_id == piece.message_id


def test_what_is_encrypted_before_a_key_exists_is_refused() -> None:
    piece = whole(b"message_id:30;encryption:aes;BGjxpSaepyRbuExk1FbpTQ==")
    with pytest.raises(BadTransmission) as raised:
        unpack(piece, None, LIMIT)
    assert raised.value.result == Result.ENCRYPTION


def test_gzip_may_make_as_much_as_the_limit() -> None:
    piece = whole(gzipped(gzip.compress(bytes(1000))))
    assert unpack(piece, None, 1000) == bytes(1000)
    with pytest.raises(BadTransmission) as raised:
        unpack(piece, None, 999)
    assert raised.value.reason is Reason.BOMB


def test_a_ciphertext_flipped_in_any_bit_never_gives_the_payload() -> None:
    sealed = VECTOR_CIPHER.encrypt(b"hello wolpertinger")
    for bit in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert VECTOR_CIPHER.decrypt(bytes(flipped)) != b"hello wolpertinger"
        except ValueError:
            continue


def test_what_we_send_is_what_the_vectors_say() -> None:
    assert encode(1, pack(b"hello", None, compress=False)) == [b"message_id:1;aGVsbG8="]
    expected = [b"message_id:30;encryption:aes;BGjxpSaepyRbuExk1FbpTQ=="]
    assert encode(30, pack(b"hello", VECTOR_CIPHER, compress=False)) == expected
    assert encode_confirmation(8, Result.SUCCESS) == b"result:0;message_id:8;"


@pytest.mark.parametrize(("characters", "pieces"), [(30_500, 1), (30_504, 2)])
def test_a_message_is_split_above_30500_characters(characters: int, pieces: int) -> None:
    messages = encode(1, pack(bytes(characters // 4 * 3), None, compress=False))
    assert len(messages) == pieces
    assert all(len(message) < 30_600 for message in messages)


@settings(deadline=None, max_examples=100)
@given(
    data=st.binary(max_size=100_000),
    cipher=st.sampled_from([None, VECTOR_CIPHER, Cipher(bytes(32), bytes(16))]),
    compress=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_what_is_packed_and_split_comes_out_in_any_order(
    data: bytes, cipher: Cipher | None, compress: bool, order: random.Random
) -> None:
    messages = encode(7, pack(data, cipher, compress=compress))
    order.shuffle(messages)
    fragments = Fragments(LIMIT)
    joined = [found for message in messages if (found := fragments.add(whole(message), 0.0)) is not None]
    assert [unpack(found, cipher, LIMIT) for found in joined] == [data]


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=80)
    | st.from_regex(rb"((message_id|gzip|result|encryption|fragment_count):[0-9a]{0,4};){1,4}[a-zA-Z0-9=]{0,9}")
)
def test_any_message_is_read_or_refused(message: bytes) -> None:
    with suppress(Rejected):
        found = decode(message)
        assert isinstance(found, Confirmation) or isinstance(unpack(found, VECTOR_CIPHER, LIMIT), bytes)

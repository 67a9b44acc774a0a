"""Encryption and compression of the binary field."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import Key, KeyRing
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import Algorithm, Field, FieldType, Flag
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.sealing import Metadata, compress, expand, seal
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from tests.refusals import reason_of
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, BY_HMAC, NAME, NODE_ID, packet
from tests.unit.protocols.emm.vectors import KEY, KEY_ID, MESSAGE_ID, NODE, RECEIVED_AT, SECRET, TIMESTAMP, receive

NONCE = bytes(range(12))
ENCRYPTION_KEY = b"e" * 32
OPENING = EmmOptions(encryption="open")
ENV = CodecContext(KeyRing({NODE: {KEY_ID: replace(KEY, encryption=ENCRYPTION_KEY, default=True)}}))
ALGORITHMS = pytest.mark.parametrize("algorithm", Algorithm)


def draft(*fields: Field) -> codec.Draft:
    return codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME, *fields))


def sealed(
    body: bytes,
    algorithm: Algorithm = Algorithm.AES_256_GCM,
    identifier: bytes | None = None,
    key: bytes = ENCRYPTION_KEY,
) -> bytes:
    metadata = Metadata(algorithm, NONCE, identifier)
    return codec.encode(seal(draft(Field(FieldType.BINARY, body)), metadata, key), BY_HMAC)


def why(data: bytes, options: EmmOptions = OPENING, env: CodecContext = ENV) -> Reason:
    with pytest.raises(Rejected) as refused:
        receive(data, options, env)
    return refused.value.reason


@ALGORITHMS
def test_what_is_sealed_is_opened(algorithm: Algorithm) -> None:
    event = receive(sealed(b"secret", algorithm), OPENING, ENV)
    assert (event.body, event.content_type, dict(event.headers)) == (b"secret", "application/octet-stream", {})


@ALGORITHMS
def test_metadata_says_what_the_algorithm_needs(algorithm: Algorithm) -> None:
    field = Metadata(algorithm, NONCE, b"k" * 16).field()
    inner = {
        Algorithm.AES_256_GCM: f"010101 02010c 030c{NONCE.hex()}",
        Algorithm.CHACHA20_POLY1305: f"010102 040c{NONCE.hex()}",
    }[algorithm]
    assert field.value == bytes.fromhex(inner) + b"\5\x10" + b"k" * 16


@ALGORITHMS
def test_the_wire_form_is_ciphertext_and_tag_over_the_first_fifteen_bytes_of_the_header(algorithm: Algorithm) -> None:
    data = sealed(b"secret", algorithm)
    cipher = AESGCM if algorithm is Algorithm.AES_256_GCM else ChaCha20Poly1305
    ciphertext = codec.decode(data).value(FieldType.BINARY) or b""
    assert cipher(ENCRYPTION_KEY).decrypt(NONCE, ciphertext, data[:15]) == b"secret"


@ALGORITHMS
def test_the_ciphertext_is_bound_to_the_header_but_not_to_payload_length(algorithm: Algorithm) -> None:
    """Moved into a packet with another Message ID it does not open; with another field beside it, it does."""
    packet_fields = codec.decode(sealed(b"secret", algorithm)).fields
    moved = tuple(item for item in packet_fields if item.type not in (0x14, 0x18, 0x10))
    other = codec.Draft(bytes(4), TIMESTAMP, moved, flags=Flag.ENCRYPTED)
    assert why(codec.encode(other, BY_HMAC)) is Reason.BAD_CIPHERTEXT
    longer = codec.Draft(MESSAGE_ID, TIMESTAMP, (*moved, Field(0x7F, b"more")), flags=Flag.ENCRYPTED)
    assert receive(codec.encode(longer, BY_HMAC), OPENING, ENV).body == b"secret"


@pytest.mark.parametrize("flags", [Flag.ENCRYPTED | Flag.URGENT, Flag.ENCRYPTED | Flag.COMPRESSED])
def test_the_ciphertext_is_bound_to_the_flags(flags: int) -> None:
    moved = tuple(item for item in codec.decode(sealed(b"secret")).fields if item.type not in (0x14, 0x18, 0x10))
    assert why(codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, moved, flags=flags), BY_HMAC)) is Reason.BAD_CIPHERTEXT


@ALGORITHMS
def test_a_ciphertext_with_any_byte_changed_does_not_open(algorithm: Algorithm) -> None:
    """The sender signs what it sends, so only the cipher's own tag can tell."""
    fields = seal(draft(Field(FieldType.BINARY, b"secret")), Metadata(algorithm, NONCE), ENCRYPTION_KEY).fields
    right = next(item.value for item in fields if item.type == FieldType.BINARY)
    for at in range(len(right)):
        wrong = right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :]
        changed = tuple(Field(4, wrong) if item.type == FieldType.BINARY else item for item in fields)
        data = codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, changed, flags=Flag.ENCRYPTED), BY_HMAC)
        assert why(data) is Reason.BAD_CIPHERTEXT


@pytest.mark.parametrize("ciphertext", [b"", b"t" * 15, b"t" * 16])
def test_a_ciphertext_shorter_than_its_tag_does_not_open(ciphertext: bytes) -> None:
    fields = (Field(FieldType.BINARY, ciphertext), Metadata(Algorithm.AES_256_GCM, NONCE).field())
    data = codec.encode(replace(draft(*fields), flags=Flag.ENCRYPTED), BY_HMAC)
    assert why(data) is Reason.BAD_CIPHERTEXT


OTHER_NODE = b"o" * 16
OTHER_ID = bytes.fromhex("00000002")
KEYS = KeyRing(
    {
        NODE: {
            KEY_ID: replace(KEY, encryption=b"1" * 32, default=True),
            OTHER_ID: Key(OTHER_ID, encryption=b"2" * 32),
        },
        OTHER_NODE: {KEY_ID: Key(KEY_ID, encryption=b"o" * 32, default=True)},
    }
)


@pytest.mark.parametrize(
    ("identifier", "key"),
    [
        pytest.param(None, b"1" * 32, id="none: the node's default key"),
        pytest.param(NODE, b"1" * 32, id="the node itself: its default key"),
        pytest.param(bytes(12) + OTHER_ID, b"2" * 32, id="a key id of the node"),
        pytest.param(OTHER_NODE, b"o" * 32, id="another node: that one's default key"),
    ],
)
def test_the_key_is_the_one_the_metadata_names(identifier: bytes | None, key: bytes) -> None:
    assert receive(sealed(b"secret", identifier=identifier, key=key), OPENING, CodecContext(KEYS)).body == b"secret"
    assert why(sealed(b"secret", identifier=identifier, key=b"x" * 32), env=CodecContext(KEYS)) is Reason.BAD_CIPHERTEXT


def test_field_17_names_the_key_where_the_metadata_does_not() -> None:
    named = seal(draft(Field(FieldType.BINARY, b"secret")), Metadata(Algorithm.AES_256_GCM, NONCE), b"2" * 32)
    by_17 = replace(named, fields=(*named.fields, Field(FieldType.KEY_IDENTIFIER, bytes(12) + OTHER_ID)))
    assert receive(codec.encode(by_17, BY_HMAC), OPENING, CodecContext(KEYS)).body == b"secret"
    metadata = Metadata(Algorithm.AES_256_GCM, NONCE, NODE)
    both = seal(draft(Field(FieldType.BINARY, b"secret")), metadata, b"1" * 32)
    both = replace(both, fields=(*both.fields, Field(FieldType.KEY_IDENTIFIER, bytes(12) + OTHER_ID)))
    assert receive(codec.encode(both, BY_HMAC), OPENING, CodecContext(KEYS)).body == b"secret"


def test_a_key_that_nobody_has_is_unknown_and_one_that_is_over_expired() -> None:
    assert why(sealed(b"secret", identifier=b"?" * 16)) is Reason.UNKNOWN_KEY
    without = CodecContext(KeyRing({NODE: {KEY_ID: replace(KEY, default=True)}}))
    assert why(sealed(b"secret"), env=without) is Reason.UNKNOWN_KEY
    over = Key(OTHER_ID, encryption=b"2" * 32, not_after=RECEIVED_AT)
    ending = CodecContext(KeyRing({NODE: {KEY_ID: KEY, OTHER_ID: over}}))
    assert why(sealed(b"", identifier=bytes(12) + OTHER_ID, key=b"2" * 32), env=ending) is Reason.EXPIRED_KEY


def test_during_a_rotation_either_default_key_opens() -> None:
    old, new = (Key(bytes([0, 0, 0, n]), SECRET, None, bytes([n]) * 32, default=True) for n in (1, 2))
    env = CodecContext(KeyRing({NODE: {old.key_id: old, new.key_id: new}}))
    for key in (old, new):
        assert receive(sealed(b"secret", key=key.encryption or b""), OPENING, env).body == b"secret"


def test_where_encryption_passes_the_ciphertext_is_offered_as_it_is() -> None:
    data = sealed(b"secret", identifier=NODE)
    event = receive(data, EmmOptions(), ENV)
    assert len(event.body) == len(b"secret") + 16
    assert event.content_type == "application/octet-stream"
    assert dict(event.headers) == {
        "encrypted": "aes-256-gcm",
        "encrypted-nonce": NONCE.hex(),
        "encrypted-header": data[:15].hex(),
        "encrypted-key": NODE.hex(),
    }


def packed(body: bytes) -> bytes:
    return codec.encode(compress(draft(Field(FieldType.BINARY, body))), BY_HMAC)


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_what_is_compressed_is_uncompressed(body: bytes) -> None:
    assert receive(packed(body)).body == body


def test_compression_comes_before_encryption() -> None:
    body = b"a" * 10_000
    both = seal(compress(draft(Field(FieldType.BINARY, body))), Metadata(Algorithm.AES_256_GCM, NONCE), ENCRYPTION_KEY)
    assert receive(codec.encode(both, BY_HMAC), OPENING, ENV).body == body
    passed = receive(codec.encode(both, BY_HMAC), EmmOptions(), ENV)
    assert (passed.headers["encrypted"], passed.headers["compressed"]) == ("aes-256-gcm", "gzip")


def test_a_long_body_is_joined_before_it_is_opened() -> None:
    body = bytes(300)
    assert receive(sealed(body), OPENING, ENV).body == body
    assert sum(item.type == FieldType.BINARY for item in codec.decode(sealed(body)).fields) == 2


@pytest.mark.parametrize(("size", "reason"), [(65_536, None), (65_537, Reason.BOMB), (200_000, Reason.BOMB)])
def test_the_output_of_gzip_is_limited(size: int, reason: Reason | None) -> None:
    data = packed(bytes(size))
    if reason is None:
        assert len(receive(data).body) == size
    else:
        assert why(data) is reason


def test_the_limit_is_the_listeners() -> None:
    assert len(receive(packed(bytes(10)), EmmOptions(uncompressed_bytes=10)).body) == 10
    assert why(packed(bytes(11)), EmmOptions(uncompressed_bytes=10)) is Reason.BOMB


GZIP = gzip.compress(b"body", mtime=0)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"body", id="no gzip"),
        pytest.param(zlib.compress(b"body"), id="zlib's own form"),
        pytest.param(GZIP[:-1], id="a byte less"),
        pytest.param(GZIP + b"\0", id="a byte more"),
        pytest.param(GZIP + GZIP, id="twice"),
        pytest.param(GZIP[:-5] + bytes([GZIP[-5] ^ 1]) + GZIP[-4:], id="a wrong checksum"),
        pytest.param(GZIP[:-1] + b"\1", id="a wrong size"),
    ],
)
def test_broken_gzip_is_malformed(broken: bytes) -> None:
    assert reason_of(expand, broken, 100) is Reason.MALFORMED


@pytest.mark.parametrize(
    ("fields", "reason"), [((), Reason.MISSING_FIELD), ((Field(4, b"a"), Field(4, b"b")), Reason.MALFORMED)]
)
@pytest.mark.parametrize("flag", [Flag.ENCRYPTED, Flag.COMPRESSED])
def test_the_flags_speak_of_one_binary_field(fields: tuple[Field, ...], reason: Reason, flag: Flag) -> None:
    metadata = Metadata(Algorithm.AES_256_GCM, NONCE).field()
    data = packet(NAME, *fields, metadata, NODE_ID, AUTH_KEY_ID, flags=flag, signer=BY_HMAC)
    assert why(data) is reason


def test_a_draft_without_a_body_cannot_be_sealed() -> None:
    assert reason_of(seal, draft(), Metadata(Algorithm.AES_256_GCM, NONCE), ENCRYPTION_KEY) is Reason.MISSING_FIELD


def test_compression_is_the_same_for_the_same_body() -> None:
    assert packed(b"body") == packed(b"body")


def test_nothing_is_opened_before_it_is_authenticated() -> None:
    """A bomb, and a ciphertext, from somebody who has no key."""
    nobody = Signer(NODE, KEY_ID, b"wrong")
    bomb = codec.encode(compress(draft(Field(FieldType.BINARY, bytes(200_000)))), nobody)
    assert why(bomb) is Reason.BAD_HMAC
    metadata = Metadata(Algorithm.AES_256_GCM, NONCE)
    ciphertext = codec.encode(seal(draft(Field(FieldType.BINARY, b"x")), metadata, b"?" * 32), nobody)
    assert why(ciphertext) is Reason.BAD_HMAC

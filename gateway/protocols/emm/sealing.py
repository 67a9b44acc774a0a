"""Does what the text leaves to the application: encryption and compression of the binary field (04).

    sending:   body → gzip → encrypt → field 04        receiving: the same backwards

Both apply to the whole, joined field. What is authenticated along with the ciphertext is the header without Payload
Length, which is not known before the ciphertext is; the tag stands at the ciphertext's end.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from gateway.auth.keyring import KeyRing, usable_at
from gateway.auth.verification import CACHED_KEYS
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import WireReader
from gateway.protocols.emm.codec import Draft, decode_fields, encode_fields
from gateway.protocols.emm.frames import (
    NONCE_FIELD,
    SEALED_HEADER_BYTES,
    Algorithm,
    Field,
    FieldType,
    Flag,
    Packet,
    SubType,
)

_GZIP_ONLY = 16 + zlib.MAX_WBITS
_Cipher = AESGCM | ChaCha20Poly1305


@dataclass(frozen=True, slots=True)
class Metadata:
    """Says how a packet was encrypted (11, and 17). The key id is 16 bytes, or None for the node's default key."""

    algorithm: Algorithm
    nonce: bytes
    key_identifier: bytes | None = None

    @classmethod
    def of(cls, packet: Packet) -> Metadata:
        """Returns the metadata of a packet that has been checked."""
        inner = {item.type: item.value for item in decode_fields(WireReader(packet.value(FieldType.ENCRYPTION) or b""))}
        algorithm = Algorithm(inner[SubType.ALGORITHM][0])
        identifier = inner.get(SubType.KEY_IDENTIFIER, packet.value(FieldType.KEY_IDENTIFIER))
        return cls(algorithm, inner[NONCE_FIELD[algorithm]], identifier)

    def field(self) -> Field:
        inner = [Field(SubType.ALGORITHM, bytes([self.algorithm]))]
        if self.algorithm is Algorithm.AES_256_GCM:
            inner.append(Field(SubType.IV_LENGTH, bytes([len(self.nonce)])))
        inner.append(Field(NONCE_FIELD[self.algorithm], self.nonce))
        if self.key_identifier is not None:
            inner.append(Field(SubType.KEY_IDENTIFIER, self.key_identifier))
        return Field(FieldType.ENCRYPTION, encode_fields(inner))


@lru_cache(maxsize=CACHED_KEYS)
def _cipher(algorithm: Algorithm, key: bytes) -> _Cipher:
    return AESGCM(key) if algorithm is Algorithm.AES_256_GCM else ChaCha20Poly1305(key)


def seal(draft: Draft, metadata: Metadata, key: bytes) -> Draft:
    """Returns the draft with its binary field encrypted. It comes last: no other header field may change after it."""
    flagged = replace(draft, flags=draft.flags | Flag.ENCRYPTED)
    sealed = _cipher(metadata.algorithm, key).encrypt(
        metadata.nonce, binary_field(draft.fields).value, flagged.sealed_header
    )
    return replace(flagged, fields=(*with_binary(draft.fields, sealed), metadata.field()))


def compress(draft: Draft) -> Draft:
    """Returns the draft with its binary field gzipped; the same bytes for the same body."""
    packed = gzip.compress(binary_field(draft.fields).value, mtime=0)
    return replace(draft, flags=draft.flags | Flag.COMPRESSED, fields=with_binary(draft.fields, packed))


def unseal(packet: Packet, sealed: bytes, received_at: int, keys: KeyRing) -> bytes:
    """Returns the decrypted bytes; raises Rejected."""
    metadata = Metadata.of(packet)
    node = packet.value(FieldType.NODE_ID) or b""
    candidates = (key for key in keys.for_encryption(node, metadata.key_identifier) if key.encryption is not None)
    for key in usable_at(received_at, candidates):
        try:
            if key.encryption is not None:
                cipher = _cipher(metadata.algorithm, key.encryption)
                return cipher.decrypt(metadata.nonce, sealed, packet.raw[:SEALED_HEADER_BYTES])
        except InvalidTag:
            continue
    raise Rejected(Reason.BAD_CIPHERTEXT, "the ciphertext does not open with the key")


def expand(packed: bytes, limit: int) -> bytes:
    """Returns the unzipped bytes. More than `limit` of them are refused: the rest of a bomb is never made."""
    unpacker = zlib.decompressobj(wbits=_GZIP_ONLY)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        raise Rejected(Reason.MALFORMED, "broken gzip") from None
    if len(body) > limit:
        raise Rejected(Reason.BOMB, f"more than {limit} bytes when uncompressed")
    if not unpacker.eof or unpacker.unused_data:
        raise Rejected(Reason.MALFORMED, "gzip that does not end where its field does")
    return body


def binary_field(fields: tuple[Field, ...]) -> Field:
    """Returns the one field that the flags speak of."""
    binary_fields = [item for item in fields if item.type == FieldType.BINARY]
    if len(binary_fields) != 1:
        reason = Reason.MALFORMED if binary_fields else Reason.MISSING_FIELD
        raise Rejected(reason, f"{len(binary_fields)} binary fields to be encrypted or compressed, not one")
    return binary_fields[0]


def with_binary(fields: tuple[Field, ...], value: bytes) -> tuple[Field, ...]:
    return tuple(Field(item.type, value) if item.type == FieldType.BINARY else item for item in fields)


def open_data(
    packet: Packet, data: tuple[Field, ...], received_at: int, keys: KeyRing, uncompressed_bytes: int
) -> tuple[Field, ...]:
    """Returns the data fields (joined) with the binary field decrypted and uncompressed, as the packet's flags say."""
    flags = packet.header.flags
    if not flags & (Flag.ENCRYPTED | Flag.COMPRESSED):
        return data
    body = binary_field(data).value
    if flags & Flag.ENCRYPTED:
        body = unseal(packet, body, received_at, keys)
    if flags & Flag.COMPRESSED:
        body = expand(body, uncompressed_bytes)
    return with_binary(data, body)

"""The session's own secrets: AES-256-CBC with PKCS#7, and the key agreement (ECDH on P-521) that makes its key.

A public key travels as the blob `ECK5`, u32 little-endian 66, X, Y. The AES key is SHA-256 of the 66 bytes of x.
CBC without a tag is what the protocol has: it hides, it does not prove. Who needs more puts TLS below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher as BlockCipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

KEY_BYTES = 32
IV_BYTES = 16
_COORDINATE_BYTES = 66
_BLOB_HEAD = b"ECK5" + _COORDINATE_BYTES.to_bytes(4, "little")
BLOB_BYTES = len(_BLOB_HEAD) + 2 * _COORDINATE_BYTES
SCALAR_TOKEN_BYTES = _COORDINATE_BYTES + 8
"""Eight bytes more than the order has, so that reducing them leaves no bias worth the name (FIPS 186-5, A.2.1)."""

_ORDER = int(
    "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa"
    "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
    16,
)
"""The order of P-521's base point (SEC 2, 2.6.1)."""


@dataclass(frozen=True, slots=True)
class Cipher:
    """Encrypts with one key and IV for the whole session, both ways."""

    key: bytes = field(repr=False)
    iv: bytes

    def encrypt(self, data: bytes) -> bytes:
        padder = PKCS7(AES256.block_size).padder()
        encryptor = BlockCipher(AES256(self.key), CBC(self.iv)).encryptor()
        return encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()

    def decrypt(self, data: bytes) -> bytes:
        """Raises ValueError where the length or the padding is wrong."""
        decryptor = BlockCipher(AES256(self.key), CBC(self.iv)).decryptor()
        unpadder = PKCS7(AES256.block_size).unpadder()
        return unpadder.update(decryptor.update(data) + decryptor.finalize()) + unpadder.finalize()


class KeyPair:
    """Holds our half of one key agreement."""

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self._private = private

    @classmethod
    def from_token(cls, token: bytes) -> Self:
        """Returns the key pair made from `SCALAR_TOKEN_BYTES` random bytes."""
        scalar = int.from_bytes(token, "big") % (_ORDER - 1) + 1
        return cls(ec.derive_private_key(scalar, ec.SECP521R1()))

    @property
    def blob(self) -> bytes:
        point = self._private.public_key().public_numbers()
        return b"".join((_BLOB_HEAD, *(at.to_bytes(_COORDINATE_BYTES, "big") for at in (point.x, point.y))))

    def agree(self, blob: bytes) -> bytes:
        """Returns the AES key shared with the owner of that public key. Raises ValueError if it is not on the curve."""
        if len(blob) != BLOB_BYTES or not blob.startswith(_BLOB_HEAD):
            raise ValueError("no ECK5 blob")
        x, y = blob[len(_BLOB_HEAD) : -_COORDINATE_BYTES], blob[-_COORDINATE_BYTES:]
        numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), ec.SECP521R1())
        return sha256(self._private.exchange(ec.ECDH(), numbers.public_key())).digest()

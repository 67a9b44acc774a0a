"""Tags and signatures: made and verified here and nowhere else.

Comparison is in constant time. A function that verifies answers yes or no: why it said no (no such key, a wrong tag)
is recorded by its caller, and no peer can tell the cases apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hmac import compare_digest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from nacl.bindings import crypto_core_ed25519_is_valid_point, crypto_sign_open
from nacl.exceptions import BadSignatureError

HMAC_BYTES = 32
ED25519_KEY_BYTES = 32
ED25519_SIGNATURE_BYTES = 64

CACHED_KEYS = 65_536
"""Prepared keys held per process: one per key of the trust store (unknown keys never get this far), so a store of
65,536 keys still hits. A prepared HMAC saves two of the four SHA-256 blocks of a short message."""


Verifier = Callable[[bytes, bytes], bool]
"""(data, tag) → whether the tag is that of the data."""


@lru_cache(maxsize=CACHED_KEYS)
def _prepared_hmac(secret: bytes) -> HMAC:
    """Returns an HMAC that is copied, and never updated."""
    return HMAC(secret, SHA256())


def hmac_sha256(secret: bytes, data: bytes) -> bytes:
    tag = _prepared_hmac(secret).copy()
    tag.update(data)
    return tag.finalize()


@lru_cache(maxsize=CACHED_KEYS)
def hmac_verifier(secret: bytes) -> Verifier:
    """Returns a verifier for many tags with one secret."""
    copy = _prepared_hmac(secret).copy

    def verify(data: bytes, tag: bytes) -> bool:
        made = copy()
        made.update(data)
        return compare_digest(made.finalize(), tag)

    return verify


TagMaker = Callable[[bytes], bytes]


@lru_cache(maxsize=CACHED_KEYS)
def hmac_maker(secret: bytes) -> TagMaker:
    """Returns what makes the tags of many messages with one secret; `wrong_tags` compares them."""
    copy = _prepared_hmac(secret).copy

    def make(data: bytes) -> bytes:
        tag = copy()
        tag.update(data)
        return tag.finalize()

    return make


def wrong_tags(made: Sequence[bytes], received: Sequence[bytes]) -> list[int]:
    """Returns the places of the given tags that are not those that were made. Where all are right, as is usual, one
    comparison in constant time says so; lengths are no secret."""
    if list(map(len, made)) == list(map(len, received)) and compare_digest(b"".join(made), b"".join(received)):
        return []
    return [at for at, (right, tag) in enumerate(zip(made, received, strict=True)) if not compare_digest(right, tag)]


def verify_hmac(secret: bytes, data: bytes, tag: bytes) -> bool:
    return hmac_verifier(secret)(data, tag)


def verify_ed25519(public: bytes, data: bytes, signature: bytes) -> bool:
    """Verifies with libsodium. It also refuses keys of small order, under which one signature fits any message."""
    try:
        crypto_sign_open(signature + data, public)
    except (BadSignatureError, ValueError):
        return False
    return True


def is_public_key(public: bytes) -> bool:
    """Returns True for a point of the curve that is none of the few of small order."""
    return crypto_core_ed25519_is_valid_point(public)


def sign_ed25519(seed: bytes, data: bytes) -> bytes:
    return _private_key(seed).sign(data)


def public_of(seed: bytes) -> bytes:
    """Returns the public half of a private seed."""
    return _private_key(seed).public_key().public_bytes_raw()


@lru_cache(maxsize=16)
def _private_key(seed: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed)

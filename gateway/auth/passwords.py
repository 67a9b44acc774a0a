"""Proof of a shared secret by a token that is used once: PBKDF2-HMAC-SHA1 over the token as salt."""

from __future__ import annotations

import hmac
from hashlib import pbkdf2_hmac

ROUNDS = 1000
PROOF_BYTES = 64


def prove_password(secret: str, token: bytes) -> bytes:
    """Returns the answer to the token, which only someone who knows the secret can give."""
    return pbkdf2_hmac("sha1", secret.encode(), token, ROUNDS, PROOF_BYTES)


def verify_password(secret: str | None, token: bytes, proof: bytes) -> bool:
    """Returns True if the proof is right. An unknown secret (None) takes as long as a wrong proof."""
    expected = prove_password(secret or "", token)
    return hmac.compare_digest(expected, proof) and secret is not None

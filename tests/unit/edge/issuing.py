"""An issuer of tokens for tests: keys of every kind, the file that names them, and what is signed with them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE, ISSUER = "mesh", "https://login.example.org"
SECRET = "0123456789abcdef0123456789abcdef"

_RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@dataclass
class Issuer:
    """`folder`: where its key set stands."""

    folder: Path
    keys: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = {
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "RS256": _RSA,
            "HS256": SECRET,
        }
        self.jwks = self.folder / "jwks.json"
        self.publishes("EdDSA", "ES256", "RS256")

    def publishes(self, *algorithms: str) -> None:
        """Writes the public halves of these keys into the key set."""
        forms: dict[str, Any] = {"EdDSA": OKPAlgorithm, "ES256": ECAlgorithm, "RS256": RSAAlgorithm}
        keys = [
            {**json.loads(forms[name].to_jwk(self.keys[name].public_key())), "kid": name, "use": "sig"}
            for name in algorithms
        ]
        new = self.jwks.with_suffix(".new")
        new.write_text(json.dumps({"keys": keys}))
        new.replace(self.jwks)

    def token(self, algorithm: str = "EdDSA", *, kid: str | None = None, **claims: Any) -> str:
        """A good token of `alice`, with the claims given put in, or left out where they are None."""
        now = int(time.time())
        whole = {"sub": "alice", "aud": AUDIENCE, "iss": ISSUER, "exp": now + 600} | claims
        present = {name: value for name, value in whole.items() if value is not None}
        headers = {"kid": kid or algorithm}
        return jwt.encode(present, self.keys[algorithm], algorithm=algorithm, headers=headers)

    @property
    def settings(self) -> dict[str, Any]:
        """`auth` of a configuration."""
        tokens = {"jwks": str(self.jwks), "issuer": ISSUER, "audience": AUDIENCE, "secret": SECRET}
        return {"tokens": tokens}

"""Tokens that make a session a node: JSON Web Tokens, judged by the issuer's keys or by a shared secret.

Invariants
1. A key decides which algorithm it is used with, never the token: a public key is no secret of HS256.
2. Whatever is wrong with a token, the peer can only tell that it was refused, and which claim does not hold.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import jwt

from gateway.auth.node_names import MAX_NODE_BYTES, TOKEN, is_name
from gateway.config.auth import TokenSettings
from gateway.core.reasons import Reason, Rejected
from gateway.core.yaml_files.stamps import stamps
from gateway.edge.carriers.peer import PeerIdentity

log = logging.getLogger(__name__)

MAX_TOKEN_BYTES = 8_192
"""The size that web servers allow a whole header; real tokens take one or two KiB."""
LEEWAY_SECONDS = 10
"""The most by which the issuer's clock may be ahead of ours."""
SHARED = "HS256"
PUBLIC = frozenset({"EdDSA", "ES256", "RS256"})


class TokenVerifier:
    """Judges tokens. Raises OSError or ValueError when the key set is of no use to begin with."""

    def __init__(self, settings: TokenSettings) -> None:
        self.settings = settings
        self._stamps = stamps(self._files())
        self._keys = self._read()

    def refresh(self) -> bool:
        """Takes over a key set that has changed, and returns whether it has; a broken one changes nothing."""
        stamps_now = stamps(self._files())
        if stamps_now == self._stamps:
            return False
        self._stamps = stamps_now
        try:
            self._keys = self._read()
        except (OSError, ValueError) as broken:
            log.warning("auth.tokens.jwks has changed and cannot be used: %s", broken)
        else:
            log.info("auth.tokens.jwks has changed and is in force")
            return True
        return False

    def verify(self, token: str) -> PeerIdentity:
        """Returns who the token makes of a session, and until when. Raises Rejected(unauthenticated)."""
        if len(token) > MAX_TOKEN_BYTES:
            raise _refusal(f"a token has at most {MAX_TOKEN_BYTES} bytes")
        try:
            return self._identity(self._judge(token))
        except jwt.ExpiredSignatureError:
            raise _refusal("the token has expired") from None
        except jwt.ImmatureSignatureError:
            raise _refusal("the token is not yet valid") from None
        except jwt.InvalidAudienceError:
            raise _refusal("the token is for another audience (aud)") from None
        except jwt.InvalidIssuerError:
            raise _refusal("the token is of another issuer (iss)") from None
        except jwt.MissingRequiredClaimError as missing:
            raise _refusal(f"the token has no {missing.claim}") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise _refusal("this is no token, its exp, nbf or iat is no time, or no key here has signed it") from None

    def _judge(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        failure: jwt.PyJWTError = jwt.InvalidKeyError("no key for this token")
        for key in self._candidates(algorithm, header.get("kid")):
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[str(algorithm)],
                    leeway=LEEWAY_SECONDS,
                    audience=self.settings.audience,
                    issuer=self.settings.issuer,
                    options={"require": ["exp", "aud", self.settings.node_claim], "verify_sub": False},
                )
            except jwt.InvalidSignatureError as wrong:
                failure = wrong
        raise failure

    def _candidates(self, algorithm: object, kid: object) -> list[Any]:
        """Returns the keys that a token of this header may be signed with."""
        if algorithm == SHARED:
            return [] if self.settings.secret is None else [self.settings.secret.get_secret_value()]
        fitting = [key for key in self._keys if key.algorithm_name == algorithm]
        return [key.key for key in fitting if kid is None or key.key_id in (None, kid)]

    def _identity(self, claims: Mapping[str, Any]) -> PeerIdentity:
        claim, until = self.settings.node_claim, float(claims["exp"])
        name = claims[claim]
        if not isinstance(name, str) or not is_name(name):
            raise _refusal(f"{claim} of the token is no name of at most {MAX_NODE_BYTES} bytes")
        if until <= time.time():  # the leeway is for clocks, not for longer sessions
            raise _refusal("the token has expired")
        return PeerIdentity(f"{TOKEN}{name}", until)

    def _files(self) -> list[Any]:
        return [] if self.settings.jwks is None else [self.settings.jwks]

    def _read(self) -> list[jwt.PyJWK]:
        """Reads public keys alone: a key set may hold others, which have no business here."""
        if self.settings.jwks is None:
            return []
        try:
            key_set = jwt.PyJWKSet.from_dict(json.loads(self.settings.jwks.read_text())).keys
        except (jwt.PyJWTError, AttributeError, TypeError, ValueError) as broken:
            raise ValueError(f"{self.settings.jwks} is no key set: {broken}") from None
        keys = [key for key in key_set if key.algorithm_name in PUBLIC]
        if not keys:
            raise ValueError(f"{self.settings.jwks} is a key set without a public key for {', '.join(sorted(PUBLIC))}")
        return keys


def _refusal(why: str) -> Rejected:
    return Rejected(Reason.UNAUTHENTICATED, why)

"""The settings by which peers prove who they are with tokens, if neither a certificate nor their protocol does."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.section import RelativePath
from gateway.core.section import Section

MIN_SECRET_BYTES = 32
"""A key of HS256 is no shorter than its hash (RFC 7518, section 3.2)."""


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
        raise PydanticCustomError("secret", "expected {least} bytes at least", {"least": MIN_SECRET_BYTES})
    return secret


class TokenSettings(Section):
    """JSON Web Tokens (RFC 7519) that make a session the node `token:` and the value of a claim."""

    jwks: RelativePath | None = None
    """This JSON Web Key Set has the issuer's keys, for EdDSA, ES256 and RS256. It is read again when it changes."""
    secret: Annotated[SecretStr, AfterValidator(_long_enough)] | None = None
    """This secret is shared with the issuer, for HS256."""
    issuer: str | None = None
    """The claim `iss` of a token must be this. Without it, whoever holds a key of the set may issue tokens under any
    name."""
    audience: Annotated[str, Field(min_length=1)]
    """The claim `aud` of a token must be this, or hold it: a token for another service opens nothing here."""
    node_claim: Annotated[str, Field(min_length=1)] = "sub"
    """This claim of a token names the peer's node."""

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if self.jwks is None and self.secret is None:
            raise PydanticCustomError("tokens", "expected jwks, secret, or both: a token needs a key to be judged by")
        return self


class AuthSettings(Section):
    tokens: TokenSettings | None = None
    """This section says who issues tokens for this mesh, and how they are verified. Null takes none."""

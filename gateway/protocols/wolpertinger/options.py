"""The options of a listener or link of wolpertinger, beside those of every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gateway.core.section import Section
from gateway.protocols.spec import Options
from gateway.protocols.wolpertinger.frames import LINE_BYTES, WHOLE_BYTES, TrustLevel

TRIES = 3
"""A frame that is not confirmed in time is sent again, so often in all."""
Step = Literal["connect", "encrypt", "cluster", "user"]


def _hexadecimal(secret: SecretStr) -> SecretStr:
    key = secret.get_secret_value()
    try:
        bytes.fromhex(key)
    except ValueError:
        raise ValueError("a cluster key is written in hexadecimal digits") from None
    if not key or not key.isalnum():
        raise ValueError("a cluster key is written in hexadecimal digits, without spaces")
    return SecretStr(key.lower())


class AuthOptions(Section):
    """The secrets of the edge. Nothing that decodes or encodes needs them, so the router never has them."""

    cluster_key: Annotated[SecretStr, AfterValidator(_hexadecimal)] | None = None
    """A peer that proves it has this key, in hexadecimal digits, is a member of the cluster."""
    users: Mapping[str, SecretStr] = Field(default_factory=dict)
    """A peer may log in as one of these users, each with its password."""


class WolpertingerOptions(Options):
    """A listener or link of wolpertinger takes these settings beside those that all take."""

    require_trust: int = Field(default=0, ge=0, le=4)
    """A peer must have proven this trust level before its calls are taken and its session exists for the mesh: 0
    nothing, up to 4 for a user."""
    auth: AuthOptions = Field(default_factory=AuthOptions)
    """This section holds the secrets that peers prove. They stay with the edge: the router never has them."""
    login: tuple[Step, ...] = ()
    """A session that we dialled proves these to the peer before anything else, in this order."""
    login_user: str = ""
    """This is the user of `auth.users` that `login` proves to be."""
    confirm_seconds: float = Field(default=20.0, gt=0)
    """A message that the peer has not confirmed within this time is sent again, three times in all, before it is
    undeliverable."""
    line_bytes: int = Field(default=LINE_BYTES, ge=1024)
    """A line of a message may be at most this long, or it is refused as `too_large`."""
    compress: Literal["auto", "always", "never"] = "auto"
    """Messages are compressed once the peer has compressed one itself (`auto`), always, or never."""
    compress_over_bytes: int = Field(default=4096, ge=0)
    """Only messages larger than this are compressed: smaller ones hardly shrink."""
    decompressed_bytes: int = Field(default=WHOLE_BYTES, ge=1)
    """A compressed message may be at most this large when it is opened, or it is refused as a `bomb`."""

    @property
    def admits_unproven(self) -> bool:
        return self.require_trust < TrustLevel.CLUSTER

    @property
    def confirmed_within_seconds(self) -> float:
        return TRIES * self.confirm_seconds

    def for_router(self) -> Self:
        return self.model_copy(update={"auth": AuthOptions(), "login": (), "login_user": ""})

    @model_validator(mode="after")
    def _login_is_possible(self) -> WolpertingerOptions:
        if "cluster" in self.login and self.auth.cluster_key is None:
            raise ValueError("login as a cluster member needs auth.cluster_key")
        if "user" in self.login and "cluster" not in self.login[: self.login.index("user")]:
            raise ValueError("login as a user needs `cluster` before `user`: only a member of the cluster may log in")
        if "user" in self.login and self.login_user not in self.auth.users:
            raise ValueError("login as a user needs login_user, and its password in auth.users")
        return self

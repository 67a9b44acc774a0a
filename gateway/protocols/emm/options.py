"""What a listener of emm packets may be told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.protocols.spec import Options

DEFAULT_LEASE_SECONDS = 90  # three heartbeats of 30 s: one may be lost, two may be late
DEFAULT_UNCOMPRESSED_BYTES = 65_536  # over a hundred times what a packet can carry


class EmmOptions(Options):
    """`unauthenticated: accept` takes packets without tags, `accept_presence` only hello and heartbeat of that sort.

    `public_key: any` believes whatever key a packet brings with it: such a packet proves that its sender holds that
    key, not that it is the node it names.
    """

    reserved_flags: Literal["reject", "ignore"] = "reject"
    unauthenticated: Literal["reject", "accept"] = "reject"
    accept_presence: bool = False
    public_key: Literal["pinned", "any"] = "pinned"
    freshness: Literal["required", "timestamp_only", "off"] = "required"
    encryption: Literal["pass", "open"] = "pass"
    forward: Literal["verbatim", "resign"] = "verbatim"
    lease_seconds: int = Field(default=DEFAULT_LEASE_SECONDS, ge=1)
    uncompressed_bytes: int = Field(default=DEFAULT_UNCOMPRESSED_BYTES, ge=1)

    @property
    def admits_unproven(self) -> bool:
        return self.unauthenticated == "accept" or self.public_key == "any"

    @property
    def takes_unauthenticated(self) -> bool:
        return self.unauthenticated == "accept"

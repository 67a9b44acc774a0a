"""The options of a listener of emm packets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gateway.protocols.spec import Options

DEFAULT_LEASE_SECONDS = 90  # three heartbeats of 30 s: one may be lost, two may be late
DEFAULT_UNCOMPRESSED_BYTES = 65_536  # over a hundred times what a packet can carry


class EmmOptions(Options):
    """A listener of emm packets takes these settings beside those that all take."""

    reserved_flags: Literal["reject", "ignore"] = "reject"
    """Packets with reserved flags are refused, or the flags ignored: only for devices that set them by mistake."""
    unauthenticated: Literal["reject", "accept"] = "reject"
    """A packet with neither HMAC nor signature is refused, or accepted as from an anonymous node."""
    accept_presence: bool = False
    """Hello and heartbeat are accepted without HMAC and signature, even where other packets are refused."""
    public_key: Literal["pinned", "any"] = "pinned"
    """A public key that a packet brings must be one of the node's in the trust store (`pinned`), or may be any. With
    `any` a packet proves that its sender holds that key, not that it is the node it names."""
    freshness: Literal["required", "timestamp_only", "off"] = "required"
    """A packet's time must be in the replay window: always (`required`), only if it carries the signed timestamp
    (`timestamp_only`), or never (`off`), which lets old packets in again."""
    encryption: Literal["pass", "open"] = "pass"
    """Encrypted bodies pass as they are, or are opened with the node's key, so that other protocols can read them."""
    forward: Literal["verbatim", "resign"] = "verbatim"
    """Packets go to emm peers as their sender signed them (`verbatim`), or signed by the gateway (`resign`) for devices
    that know only the gateway's key."""
    lease_seconds: int = Field(default=DEFAULT_LEASE_SECONDS, ge=1)
    """A subscription made by a hello holds so long, and each hello or heartbeat renews it. Three heartbeats of 30 s:
    one may be lost, two may be late."""
    uncompressed_bytes: int = Field(default=DEFAULT_UNCOMPRESSED_BYTES, ge=1)
    """A compressed body may be at most this large when it is opened, or it is refused as a `bomb`. The default is over
    a hundred times what a packet can carry."""

    @property
    def admits_unproven(self) -> bool:
        return self.unauthenticated == "accept" or self.public_key == "any"

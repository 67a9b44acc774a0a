"""Keys as the stream uses them: looked up by node and key id, judged by a point in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gateway.auth.verification import public_of
from gateway.core.reasons import Reason, Rejected

NODE_BYTES = 16
KEY_ID_BYTES = 4
KEY_IDENTIFIER_BYTES = 16
_NO_NODE = bytes(KEY_IDENTIFIER_BYTES - KEY_ID_BYTES)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a node. Times are microseconds since the epoch; `None` is without end.

    `label`: what people call the device that has it.
    """

    key_id: bytes
    hmac: bytes | None = field(default=None, repr=False)
    ed25519: bytes | None = None
    encryption: bytes | None = field(default=None, repr=False)
    default: bool = False
    not_before: int | None = None
    not_after: int | None = None
    label: str = ""

    def valid_at(self, at: int) -> bool:
        return (self.not_before is None or self.not_before <= at) and (self.not_after is None or at < self.not_after)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The trust store in memory: node id (16 bytes) → its keys by key id (4 bytes)."""

    nodes: Mapping[bytes, Mapping[bytes, Key]] = field(default_factory=lambda: MappingProxyType({}))

    def find(self, node: bytes, key_id: bytes) -> Key | None:
        keys = self.nodes.get(node)
        return keys.get(key_id) if keys else None

    def named(self, node: bytes, key_id: bytes | None) -> tuple[Key, ...]:
        """Returns the key of that id.

        Without an id it returns all default keys: during a rotation there are two of them, and the sender does not say
        which it has.
        """
        if key_id is None:
            return tuple(key for key in self.nodes.get(node, {}).values() if key.default)
        key = self.find(node, key_id)
        return () if key is None else (key,)

    def holding(self, node: bytes, public: bytes) -> tuple[Key, ...]:
        """Returns the node's keys with this public half."""
        return tuple(key for key in self.nodes.get(node, {}).values() if key.ed25519 == public)

    def for_encryption(self, node: bytes, identifier: bytes | None) -> tuple[Key, ...]:
        """Returns the keys that a 16-byte key identifier means.

        It is a key id of the node, filled up with zeros in front, or else the id of a node, and then means that node's
        default keys. None means the default keys of the packet's own node.
        """
        if identifier is None:
            return self.named(node, None)
        if identifier.startswith(_NO_NODE) and (keys := self.named(node, identifier[-KEY_ID_BYTES:])):
            return keys
        return self.named(identifier, None)


def usable_at(at: int, keys: Iterable[Key]) -> list[Key]:
    """Returns the keys that hold at that time. Raises Rejected if there are none."""
    candidates = list(keys)
    if not candidates:
        raise unknown_key()
    usable = [key for key in candidates if key.valid_at(at)]
    if not usable:
        raise Rejected(Reason.EXPIRED_KEY, f"key {candidates[0].key_id.hex()} does not hold at that time")
    return usable


def unknown_key() -> Rejected:
    return Rejected(Reason.UNKNOWN_KEY, "no key of that name and kind for the node")


@dataclass(frozen=True, slots=True)
class GatewayIdentity:
    """The gateway as a node: what it signs with."""

    node: bytes
    key_id: bytes
    ed25519_private: bytes = field(repr=False)
    hmac: bytes | None = field(default=None, repr=False)


def trusting(keys: KeyRing, identity: GatewayIdentity | None) -> KeyRing:
    """Returns the key ring with the gateway as a node of its own mesh: what it signs is believed."""
    if identity is None:
        return keys
    own = Key(identity.key_id, identity.hmac, public_of(identity.ed25519_private), default=True)
    return KeyRing({**keys.nodes, identity.node: {own.key_id: own, **keys.nodes.get(identity.node, {})}})

"""Finds the key that a client signs packets with, named in one of the ways people have keys at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from gateway.auth.keyring import KEY_ID_BYTES, GatewayIdentity, Key, KeyRing
from gateway.auth.verification import ED25519_KEY_BYTES, public_of
from gateway.protocols.emm.signing import Signer

GATEWAY = "gateway"


class KeyNotFoundError(Exception):
    """The key that was named is no key; the message says what was expected, and never what was given."""


@dataclass(frozen=True, slots=True)
class PacketKey:
    """The keys of a sender of packets. `encryption` is the node's key for encrypted bodies, if it has one."""

    signer: Signer
    encryption: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, identity: GatewayIdentity) -> PacketKey:
        return cls(Signer.of(identity))


def find_key(text: str, keys: KeyRing | None = None, identity: GatewayIdentity | None = None) -> PacketKey:
    """The key that is meant. Raises KeyNotFoundError.

    `gateway`             the gateway's own
    a file, or `{...}`    a key as `keys new --output json` shows it, or as the trust store writes the gateway's
    NODE, NODE/KEY_ID     of the trust store: what it holds of the node, which is no private key
    hex                   a secret (HMAC or Ed25519), of which the trust store knows whose it is
    """
    if text == GATEWAY:
        if identity is None:
            raise KeyNotFoundError("the gateway's own key is in no trust store here")
        return PacketKey.of(identity)
    if text.lstrip().startswith("{") or Path(text).is_file():
        return _written(text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8"))
    if keys is None:
        raise KeyNotFoundError("expected a file or {node: ..., key_id: ..., hmac: ...}: there is no trust store here")
    if (key := _of_node(text, keys) or _of_secret(text, keys)) is None:
        raise KeyNotFoundError("no such file, and the trust store has no such NODE, NODE/KEY_ID or secret")
    return key


def _written(text: str) -> PacketKey:
    """Every value is text: 00000001 is a key id, and not one."""
    try:
        fields = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - knows text, lists and mappings alone
        return _from_parts(fields.get(GATEWAY, fields) if isinstance(fields, dict) else {})
    except (yaml.YAMLError, ValueError, KeyError, AttributeError):
        expected = "node (UUID), key_id (hex), and hmac, ed25519 or encryption (hex)"
        raise KeyNotFoundError(f"expected {expected}, in YAML or JSON") from None


def _from_parts(fields: Mapping[str, Any]) -> PacketKey:
    secrets = fields.get("secrets") or fields
    seed = _bytes(secrets, "ed25519_private") or _bytes(secrets, "ed25519")
    if seed is not None and len(seed) != ED25519_KEY_BYTES:
        raise ValueError("no seed")
    key_id = _bytes(fields, "key_id")
    if key_id is not None and len(key_id) != KEY_ID_BYTES:
        raise ValueError("no key id")
    return PacketKey(
        Signer(UUID(fields["node"]).bytes, key_id, _bytes(secrets, "hmac"), seed), _bytes(secrets, "encryption")
    )


def _bytes(fields: Mapping[str, Any], name: str) -> bytes | None:
    return bytes.fromhex(fields[name]) if fields.get(name) else None


def _of_node(text: str, keys: KeyRing) -> PacketKey | None:
    name, _, key_id = text.partition("/")
    try:
        node, key_identifier = UUID(name).bytes, bytes.fromhex(key_id) or None
    except ValueError:
        return None
    named = keys.named(node, key_identifier)
    return _held(node, named[0]) if named and (named[0].hmac or named[0].encryption) else None


def _of_secret(text: str, keys: KeyRing) -> PacketKey | None:
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        return None
    public = public_of(secret) if len(secret) == ED25519_KEY_BYTES else None
    for node, of_node in keys.nodes.items():
        for key in of_node.values():
            if key.hmac == secret:
                return _held(node, key)
            if public is not None and key.ed25519 == public:
                return PacketKey(Signer(node, key.key_id, ed25519_private=secret), key.encryption)
    return None


def _held(node: bytes, key: Key) -> PacketKey:
    return PacketKey(Signer(node, key.key_id, key.hmac), key.encryption)

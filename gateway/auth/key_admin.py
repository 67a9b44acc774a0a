"""Administers the trust store's file for `meshgate keys`: new keys, rotation with overlap, revocation, and the list.

Keys are never taken out: a revoked one ends now, so that a replay of the log still judges old packets as it did.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, Unpack
from uuid import UUID, uuid4

from gateway.auth import trust_file
from gateway.auth.keyring import GatewayIdentity, Key
from gateway.auth.trust_document import changing
from gateway.auth.verification import ED25519_KEY_BYTES, HMAC_BYTES, public_of

KINDS = ("hmac", "ed25519", "encryption")
FOLLOWED = ("default", "label")
"""A key that follows another has these like it, beside its kinds."""
FIRST_GATEWAY_KEY_ID = "000000ff"
DEFAULT_OVERLAP = timedelta(days=7)
"""An old key goes on holding for so long after a rotation: a device that sleeps gets its new key when it wakes."""

_Data = dict[str, Any]


class KeyAdminError(Exception):
    """Raised if the request cannot be carried out; the message names the node or key."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made. `secrets` by kind go into the device: the private half of ed25519 is kept nowhere else."""

    node: str
    key_id: str
    public: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ListedKey:
    """The part of a key that may be shown."""

    node: str
    key_id: str
    gateway: bool
    hmac: bool
    ed25519: str | None
    encryption: bool
    default: bool
    not_before: str | None
    not_after: str | None
    state: str
    label: str = ""


class KeyTerms(TypedDict, total=False):
    """Says when a key holds, and what it is used for.

    `default`: for packets that name no key; by itself a node's first key is. `label`: what people call the device.
    """

    default: bool | None
    not_before: datetime | None
    not_after: datetime | None
    label: str | None


def new_key(
    path: Path,
    node: str | None = None,
    *,
    kinds: Collection[str] = ("hmac",),
    key_id: str | None = None,
    public: str | None = None,
    **terms: Unpack[KeyTerms],
) -> NewKey:
    """Adds a key to a node, which is made up if none is named. `public`: of a pair that was made elsewhere."""
    name = str(uuid4()) if node is None else _node(node)
    with changing(path) as data:
        keys = _keys(data, name, create=True)
        chosen = _free_key_id(keys) if key_id is None else key_id.lower()
        if chosen in keys:
            raise KeyAdminError(f"node {name} has a key {chosen} already")
        made, entry = _make(name, chosen, kinds, public)
        times = {"not_before": terms.get("not_before"), "not_after": terms.get("not_after")}
        default = terms.get("default")
        if not keys if default is None else default:
            entry["default"] = True
        if label := terms.get("label"):
            entry["label"] = label
        keys[chosen] = entry | {which: time_text(time) for which, time in times.items() if time is not None}
    return made


def rotate_key(
    path: Path,
    node: str,
    *,
    now: datetime,
    key_id: str | None = None,
    public: str | None = None,
    overlap: timedelta = DEFAULT_OVERLAP,
) -> NewKey:
    """Makes a new key like the node's key of that id, or else like its latest that holds.

    The old key goes on holding for `overlap`.
    """
    name = _node(node)
    old = _existing(path, name, key_id, now)
    with changing(path) as data:
        keys = _keys(data, name)
        entry = keys[_spelt(keys, old)]
        made, new_entry = _make(name, _free_key_id(keys), [kind for kind in KINDS if kind in entry], public)
        keys[made.key_id] = new_entry | {name: entry[name] for name in FOLLOWED if entry.get(name)}
        _end(entry, old, now + overlap)
    return made


def revoke_key(path: Path, node: str, key_id: str, *, now: datetime) -> None:
    """Ends a key: it holds no more from now on."""
    name = _node(node)
    old = _existing(path, name, key_id, now)
    with changing(path) as data:
        keys = _keys(data, name)
        entry = keys[_spelt(keys, old)]
        entry.pop("default", None)
        if old.not_before is not None and old.not_before > trust_file.microseconds(now):
            entry["not_before"] = time_text(now)
        _end(entry, old, now)


def ensure_identity(path: Path, node: str | None = None, *, entry: str = trust_file.GATEWAY) -> GatewayIdentity:
    """Returns the gateway's own keys. They are made if the file has none, and the file if there is none."""
    identity = _load(path, entry).identity
    if identity is not None:
        return identity
    made = GatewayIdentity(
        UUID(_node(node)).bytes if node else uuid4().bytes,
        bytes.fromhex(FIRST_GATEWAY_KEY_ID),
        secrets.token_bytes(ED25519_KEY_BYTES),
    )
    with changing(path) as data:
        _put_identity(data, made, entry)
    return made


def rotate_identity(
    path: Path, *, now: datetime, overlap: timedelta = DEFAULT_OVERLAP, entry: str = trust_file.GATEWAY
) -> NewKey:
    """Makes a new key for the gateway, which signs with it as soon as its parts have read the file again.

    What the gateway has signed with the old key is believed for `overlap` more: the old one becomes a key of its node.
    """
    old = _load(path, entry).identity
    if old is None:
        raise KeyAdminError(f"{path} has no entry for the gateway")
    seed = secrets.token_bytes(ED25519_KEY_BYTES)
    hmac = None if old.hmac is None else secrets.token_bytes(HMAC_BYTES)
    node = str(UUID(bytes=old.node))
    with changing(path) as data:
        keys = _keys(data, node, create=True)
        keys[old.key_id.hex()] = _former_key(old, data[entry], now + overlap)
        key_id = _free_key_id(keys)
        _put_identity(data, GatewayIdentity(old.node, bytes.fromhex(key_id), seed, hmac), entry)
    return NewKey(node, key_id, public_of(seed).hex(), {} if hmac is None else {"hmac": hmac.hex()})


def list_keys(path: Path, now: datetime, *, entry: str = trust_file.GATEWAY) -> list[ListedKey]:
    """Returns all keys, the gateway's first, without their secrets."""
    trust, at = trust_file.load(path, entry=entry), trust_file.microseconds(now)
    listed = [] if trust.identity is None else [_listed_identity(trust.identity)]
    for node, keys in sorted(trust.keys.nodes.items()):
        listed += [_listed(node, key, at) for _, key in sorted(keys.items())]
    return listed


def _listed_identity(identity: GatewayIdentity) -> ListedKey:
    own = Key(identity.key_id, hmac=identity.hmac, ed25519=public_of(identity.ed25519_private))
    return _listed(identity.node, own, 0, gateway=True)


def _listed(node: bytes, key: Key, at: int, *, gateway: bool = False) -> ListedKey:
    is_over = key.not_after is not None and key.not_after <= at
    return ListedKey(
        node=str(UUID(bytes=node)),
        key_id=key.key_id.hex(),
        gateway=gateway,
        hmac=key.hmac is not None,
        ed25519=None if key.ed25519 is None else key.ed25519.hex(),
        encryption=key.encryption is not None,
        default=key.default,
        not_before=_shown(key.not_before),
        not_after=_shown(key.not_after),
        state="valid" if key.valid_at(at) else "expired" if is_over else "not yet valid",
        label=key.label,
    )


def labels_of(path: Path, entry: str = trust_file.GATEWAY) -> dict[str, str]:
    """Returns what people call the nodes: the label of each node's latest key that has one. Empty without a store."""
    nodes = _load(path, entry).keys.nodes
    labels_by_node = {
        str(UUID(bytes=node)): [key.label for _, key in sorted(keys.items())] for node, keys in nodes.items()
    }
    return {node: next(filter(None, reversed(labels)), "") for node, labels in labels_by_node.items() if any(labels)}


def _shown(time: int | None) -> str | None:
    return None if time is None else time_text(trust_file.EPOCH + timedelta(microseconds=time))


def time_text(time: datetime) -> str:
    """Returns a time as the trust store has it: in whole seconds, rounded down, so what ends now has ended."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _load(path: Path, entry: str = trust_file.GATEWAY) -> trust_file.Trust:
    return trust_file.load(path, entry=entry) if path.exists() else trust_file.Trust()


def _node(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise KeyAdminError(f"{text} is no node: expected a UUID") from None


def _keys(data: _Data, node: str, *, create: bool = False) -> _Data:
    """Returns the keys of a node, as they stand in the file."""
    nodes: _Data = data.get("nodes") or {}
    data["nodes"] = nodes
    spelt = next((name for name in nodes if str(UUID(name)) == node), node)
    if spelt not in nodes and not create:
        raise KeyAdminError(f"no node {node} in the trust store")
    entry = nodes.get(spelt) or {}
    nodes[spelt] = entry
    entry["keys"] = keys = entry.get("keys") or {}
    return keys


def _spelt(keys: _Data, key: Key) -> str:
    return next(name for name in keys if bytes.fromhex(name) == key.key_id)


def _existing(path: Path, node: str, key_id: str | None, now: datetime) -> Key:
    """Returns the node's key of that id, else the one it should be using now."""
    keys = _load(path).keys.nodes.get(UUID(node).bytes)
    if keys is None:
        raise KeyAdminError(f"no node {node} in the trust store")
    if key_id is None:
        at = trust_file.microseconds(now)
        holding = [key for key in keys.values() if key.valid_at(at)]
        existing = max(holding, key=lambda key: (key.default, key.key_id), default=None)
    else:
        existing = next((key for key in keys.values() if key.key_id.hex() == key_id.lower()), None)
    if existing is None:
        raise KeyAdminError(f"node {node} has no key {key_id or 'that holds now'}")
    return existing


def _free_key_id(keys: _Data) -> str:
    """Returns an id after the highest there is: one that a device may still know is not given out again."""
    highest = max((int(name, 16) for name in keys), default=0)
    if highest == 2**32 - 1:
        raise KeyAdminError("no key id after ffffffff: name one")
    return f"{highest + 1:08x}"


def _make(node: str, key_id: str, kinds: Collection[str], public: str | None) -> tuple[NewKey, _Data]:
    """Returns the key as its owner sees it, and its entry in the file."""
    unknown = set(kinds) - set(KINDS)
    if unknown or not kinds:
        raise KeyAdminError(f"a key is one or more of {', '.join(KINDS)}")
    made = {kind: secrets.token_hex(_SECRET_BYTES[kind]) for kind in KINDS if kind in kinds}
    entry = dict(made)
    if public is not None:
        made.pop("ed25519", None)
        entry["ed25519"] = public
    elif "ed25519" in made:
        entry["ed25519"] = public_of(bytes.fromhex(made["ed25519"])).hex()
    return NewKey(node, key_id, entry.get("ed25519"), made), entry


_SECRET_BYTES = {"hmac": HMAC_BYTES, "ed25519": ED25519_KEY_BYTES, "encryption": trust_file.ENCRYPTION_KEY_BYTES}


def _end(entry: _Data, key: Key, time: datetime) -> None:
    """Sets the key's end to that time, unless it ends earlier already."""
    if key.not_after is None or key.not_after > trust_file.microseconds(time):
        entry["not_after"] = time_text(time)


def _former_key(old: GatewayIdentity, entry: _Data, until: datetime) -> _Data:
    """Returns what others need to believe the old key. A secret stays as it is written: it may be a reference."""
    shared = {"hmac": entry["hmac"]} if "hmac" in entry else {}
    return {**shared, "ed25519": public_of(old.ed25519_private).hex(), "not_after": time_text(until)}


def _put_identity(data: _Data, identity: GatewayIdentity, entry: str) -> None:
    """Puts the identity at the beginning, in place of the one before."""
    own = {
        "node": str(UUID(bytes=identity.node)),
        "key_id": identity.key_id.hex(),
        "ed25519_private": identity.ed25519_private.hex(),
    }
    if identity.hmac is not None:
        own["hmac"] = identity.hmac.hex()
    others = {name: value for name, value in data.items() if name != entry}
    data.clear()
    data |= {entry: own} | others

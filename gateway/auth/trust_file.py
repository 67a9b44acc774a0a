"""The trust store's file: whom the mesh believes, and what the gateway signs with.

    gateway: {node: UUID, key_id: "000000ff", ed25519_private: HEX, hmac: HEX?}
    nodes:
      UUID:
        keys:
          "00000001": {hmac: HEX, ed25519: HEX, encryption: HEX, default: BOOL, not_before: TIME, not_after: TIME,
                       label: TEXT}

Key ids are 8 hex digits, times RFC 3339. A key holds at least one of hmac, ed25519 (the public half) and encryption; an
HMAC secret has 16 bytes at least.
`${ENV}` and `${file:PATH}` work in values. A fault names its place in the file and never its value: that is a secret.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from gateway.auth.keyring import KEY_ID_BYTES, GatewayIdentity, Key, KeyRing
from gateway.auth.verification import ED25519_KEY_BYTES, is_public_key
from gateway.core.yaml_files.faults import ConfigError
from gateway.core.yaml_files.source import Place, YamlSource, path_text, read_source, read_text

ENCRYPTION_KEY_BYTES = 32
MIN_HMAC_BYTES = 16
"""A secret shorter than 128 bits can be found by trying (RFC 2104, section 3, wants even the hash's 32 bytes)."""
MAX_HMAC_BYTES = 1024
MAX_LABEL_CHARACTERS = 80
"""A label takes at most a line of a table."""

GATEWAY = "gateway"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trust:
    """A file read. `files`: those whose contents it puts in."""

    keys: KeyRing = field(default_factory=KeyRing)
    identity: GatewayIdentity | None = None
    files: tuple[Path, ...] = ()


def load(path: Path, environment: Mapping[str, str] = os.environ, *, entry: str = GATEWAY) -> Trust:
    """Raises ConfigError with every fault of the file."""
    return parse(read_text(path), path, environment, entry=entry)


def parse(text: str, path: Path, environment: Mapping[str, str] = os.environ, *, entry: str = GATEWAY) -> Trust:
    """Parses the given text of the file as `load` does. Raises ConfigError."""
    source = read_source(text, str(path), path.absolute().parent, environment)
    trust = _Reading(source, entry).trust()
    if source.faults:
        raise ConfigError(sorted(source.faults, key=lambda fault: fault.line or 0))
    return trust


def microseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


@dataclass(slots=True)
class _Reading:
    """Reads as far as it can, so that all faults are told at once; what it makes of a faulty file is thrown away."""

    source: YamlSource
    entry: str

    def trust(self) -> Trust:
        # A store may hold several gateways: each configuration says which entry is its own.
        sections = self.source.data if isinstance(self.source.data, Mapping) else {}
        gateways = {
            name
            for name, entry in sections.items()
            if isinstance(name, str) and isinstance(entry, Mapping) and "ed25519_private" in entry
        }
        data = self._mapping(self.source.data, (), {"nodes", GATEWAY, self.entry, *gateways})
        nodes = dict(self._nodes(data.get("nodes") or {}))
        identity = self._identity(data[self.entry]) if data.get(self.entry) is not None else None
        return Trust(KeyRing(MappingProxyType(nodes)), identity, tuple(self.source.files))

    def _nodes(self, data: Any) -> Iterator[tuple[bytes, Mapping[bytes, Key]]]:
        seen: set[bytes] = set()
        for name, entry in self._mapping(data, ("nodes",)).items():
            place: Place = ("nodes", str(name))
            node = self._value(_node, name, place)
            keys = self._mapping(entry, place, {"keys"}).get("keys") or {}
            if node in seen:
                self.source.fault(place, "this node stands here twice")
            if node is not None:
                seen.add(node)
                yield node, MappingProxyType(dict(self._keys(keys, (*place, "keys"))))

    def _keys(self, data: Any, place: Place) -> Iterator[tuple[bytes, Key]]:
        seen: set[bytes] = set()
        for name, entry in self._mapping(data, place).items():
            inner = (*place, str(name))
            key_id = self._value(_key_id, name, inner)
            key = self._key(key_id or b"", self._mapping(entry, inner, set(_KEY_PARTS)), inner)
            if key_id in seen:
                self.source.fault(inner, "this key id stands here twice")
            if key_id is not None:
                seen.add(key_id)
                yield key_id, key

    def _key(self, key_id: bytes, data: Mapping[Any, Any], place: Place) -> Key:
        if not data.keys() & _KEY_MATERIAL:
            self.source.fault(place, f"expected at least one of {', '.join(_KEY_MATERIAL)}")
        key = Key(key_id, **{name: self._part(data, name, place) for name in _KEY_PARTS if data.get(name) is not None})
        if key.not_before is not None and key.not_after is not None and key.not_after < key.not_before:
            self.source.fault((*place, "not_after"), "expected a time after not_before")
        return key

    def _part(self, data: Mapping[Any, Any], name: str, place: Place) -> Any:
        return self._value(_KEY_PARTS[name], data[name], (*place, name))

    def _identity(self, data: Any) -> GatewayIdentity | None:
        place: Place = (self.entry,)
        parts = self._mapping(data, place, set(_IDENTITY_PARTS))
        values: dict[str, Any] = {}
        for name, read in _IDENTITY_PARTS.items():
            if parts.get(name) is not None:
                values[name] = self._value(read, parts[name], (*place, name))
            elif name != "hmac":
                self.source.fault((*place, name), "is missing")
        return None if self.source.faults else GatewayIdentity(**values)

    def _mapping(self, data: Any, place: Place, expected: set[str] | None = None) -> Mapping[Any, Any]:
        if data is None:
            return {}
        if not isinstance(data, Mapping):
            self.source.fault(place, "expected keys and values")
            return {}
        for name in data:
            if expected is not None and name not in expected:
                self.source.fault((*place, str(name)), f"unknown key: expected one of {', '.join(sorted(expected))}")
        return data

    def _value(self, read: Callable[[Any], T], value: Any, place: Place) -> T | None:
        try:
            return read(value)
        except ValueError as wrong:
            faulty_paths = {fault.path for fault in self.source.faults}  # among them a reference that found nothing
            if path_text(place) not in faulty_paths:
                self.source.fault(place, str(wrong))
            return None


def _text(value: Any, expected: str) -> str:
    if not isinstance(value, str):  # an unquoted 00000001 is a number in YAML
        raise ValueError(f"expected {expected}, in quotes")
    return value


def _hex(value: Any, least: int, most: int, field_name: str) -> bytes:
    size = f"{least}" if least == most else f"{least} to {most}"
    expected = f"{field_name}: {size} bytes in hex"
    try:
        octets = bytes.fromhex(_text(value, expected).strip())
    except ValueError:
        raise ValueError(f"expected {expected}") from None
    if not least <= len(octets) <= most:
        raise ValueError(f"expected {expected}, got {len(octets)} bytes")
    return octets


def _node(value: Any) -> bytes:
    try:
        return UUID(_text(value, "a UUID")).bytes
    except ValueError:
        raise ValueError("expected a node: a UUID") from None


def _key_id(value: Any) -> bytes:
    return _hex(value, KEY_ID_BYTES, KEY_ID_BYTES, "a key id in quotes")


def _hmac(value: Any) -> bytes:
    try:
        return _hex(value, MIN_HMAC_BYTES, MAX_HMAC_BYTES, "an HMAC secret")
    except ValueError as wrong:
        raise ValueError(f"{wrong}; `meshgate keys new` makes a good one") from None


def _seed(value: Any) -> bytes:
    return _hex(value, ED25519_KEY_BYTES, ED25519_KEY_BYTES, "an Ed25519 private seed")


def _public(value: Any) -> bytes:
    public = _hex(value, ED25519_KEY_BYTES, ED25519_KEY_BYTES, "an Ed25519 public key")
    if not is_public_key(public):
        raise ValueError("expected an Ed25519 public key: these bytes are none")
    return public


def _encryption(value: Any) -> bytes:
    return _hex(value, ENCRYPTION_KEY_BYTES, ENCRYPTION_KEY_BYTES, "an encryption key")


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _label(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_LABEL_CHARACTERS:
        raise ValueError(f"expected a label: printable text of at most {MAX_LABEL_CHARACTERS} characters")
    return value


def _time(value: Any) -> int:
    expected = "expected an RFC 3339 time with its offset, as in 2026-01-31T12:00:00Z"
    try:
        time = datetime.fromisoformat(_text(value, "a time").upper())  # RFC 3339, section 5.6: of either case
    except ValueError:
        raise ValueError(expected) from None
    if time.tzinfo is None:
        raise ValueError(expected)
    return microseconds(time)


_KEY_MATERIAL = ("hmac", "ed25519", "encryption")
_KEY_PARTS: dict[str, Callable[[Any], Any]] = {
    "hmac": _hmac,
    "ed25519": _public,
    "encryption": _encryption,
    "default": _bool,
    "not_before": _time,
    "not_after": _time,
    "label": _label,
}
_IDENTITY_PARTS: dict[str, Callable[[Any], Any]] = {
    "node": _node,
    "key_id": _key_id,
    "ed25519_private": _seed,
    "hmac": _hmac,
}

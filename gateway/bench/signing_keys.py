"""Chooses the keys that packets are signed with: a named key, or nodes that a run puts into the trust store.

Such a node stands for one device: it has a partition of the raw log of its own choice, and a lease of its own. Its key
holds until the run ends and stays in the file after that, like any key that has ended: so `audit` and `replay` judge
the run's packets as the router did, for as long as the raw log keeps them. After that the next run takes it out.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from gateway.auth.key_admin import time_text
from gateway.auth.keyring import KEY_ID_BYTES
from gateway.auth.trust_document import changing
from gateway.auth.verification import ED25519_KEY_BYTES, HMAC_BYTES, public_of
from gateway.bench.workload import Sign, WorkError
from gateway.client import PacketKey
from gateway.protocols.emm.signing import Signer

AUTO = "auto"
RAW_KEPT = timedelta(days=7)
MOST_KEY_ID = 0xFFFF_FFFF

_Data = dict[str, Any]


def bench_node(number: int) -> UUID:
    """The same at every run, so that the trust store does not grow by nodes."""
    return uuid5(NAMESPACE_OID, f"meshgate bench {number}")


def sample_key() -> PacketKey:
    """Returns a key like those that a run makes, of no node.

    With it what has to fit can be tried before anything is written.
    """
    hmac, seed = secrets.token_bytes(HMAC_BYTES), secrets.token_bytes(ED25519_KEY_BYTES)
    return PacketKey(Signer(uuid4().bytes, bytes(KEY_ID_BYTES), hmac, seed))


@contextmanager
def bench_keys(path: Path, count: int, seconds: float, now: datetime) -> Iterator[list[PacketKey]]:
    """Yields keys of `count` nodes, which are in the trust store until the block ends, and for at most `seconds`.

    Raises ConfigError where the store is faulty, OSError where it cannot be written.
    """
    with changing(path) as data:
        keys = [_add(data, number, now + timedelta(seconds=seconds)) for number in range(count)]
        _drop_old(data, now - RAW_KEPT)
    try:
        yield keys
    finally:
        # Whole seconds, and what was just received still holds.
        ended = time_text(datetime.now(UTC) + timedelta(seconds=1))
        with changing(path) as data:
            for number, key in enumerate(keys):
                _keys_of(data, number)[(key.signer.key_id or b"").hex()]["not_after"] = ended


def _add(data: _Data, number: int, until: datetime) -> PacketKey:
    keys = _keys_of(data, number)
    key_id = max((int(name, 16) for name in keys), default=0) + 1
    if key_id > MOST_KEY_ID:
        raise WorkError(f"--key auto: node {bench_node(number)} has no key id left")
    hmac, seed = secrets.token_bytes(HMAC_BYTES), secrets.token_bytes(ED25519_KEY_BYTES)
    name = f"{key_id:08x}"
    keys[name] = {"hmac": hmac.hex(), "ed25519": public_of(seed).hex(), "not_after": time_text(until)}
    return PacketKey(Signer(bench_node(number).bytes, bytes.fromhex(name), hmac, seed))


def _keys_of(data: _Data, number: int) -> _Data:
    keys: _Data
    nodes = data["nodes"] = data.get("nodes") or {}
    node = nodes[str(bench_node(number))] = nodes.get(str(bench_node(number))) or {}
    node["keys"] = keys = node.get("keys") or {}
    return keys


def _drop_old(data: _Data, before: datetime) -> None:
    """Drops bench nodes only. They count up from 0 without a gap."""
    nodes: _Data = data["nodes"]
    number = 0
    while (name := str(bench_node(number))) in nodes:
        keys: _Data = nodes[name]["keys"]
        for key_id in [key_id for key_id, key in keys.items() if _ended_before(key, before)]:
            del keys[key_id]
        number += 1


def _ended_before(key: Mapping[str, str], time: datetime) -> bool:
    return "not_after" in key and datetime.fromisoformat(key["not_after"]) < time


def for_signing(key: PacketKey, sign: Sign) -> PacketKey:
    """Returns the key with those of its parts that are used. Raises WorkError if one is missing."""
    signer = key.signer
    if sign.uses_hmac and signer.hmac is None:
        raise WorkError(f"--sign {sign}: the key has no HMAC part; choose --sign ed25519, or --key auto")
    if sign.uses_ed25519 and signer.ed25519_private is None:
        raise WorkError(f"--sign {sign}: the key has no private Ed25519 part; choose --sign hmac, or --key auto")
    return PacketKey(
        replace(
            signer,
            hmac=signer.hmac if sign.uses_hmac else None,
            ed25519_private=signer.ed25519_private if sign.uses_ed25519 else None,
        )
    )


def unsigned_keys(count: int) -> list[PacketKey]:
    """Returns nodes that prove nothing, for a listener that takes such packets."""
    return [PacketKey(Signer(uuid4().bytes)) for _ in range(count)]

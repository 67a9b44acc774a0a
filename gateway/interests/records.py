"""Records of the compacted topic `interests`: who wants what, edges' epochs, and the router's probes beside them."""

from __future__ import annotations

import json
from dataclasses import replace

from gateway.interests.changes import NewEpoch, Put, Remove
from gateway.interests.interest import Interest, InterestKey
from gateway.interests.table import InterestTable

EPOCH, PROBE = "epoch", "probe"


def epoch_record(edge: str, epoch: int) -> tuple[bytes, bytes]:
    """Returns key and value of an edge's epoch."""
    return json.dumps([EPOCH, edge]).encode(), json.dumps(epoch).encode()


def probe_record(partition: int, token: str, received_at: int) -> tuple[bytes, bytes]:
    """Returns key and value of a partition's last probe. What was received before it has been written before it."""
    return json.dumps([PROBE, partition]).encode(), json.dumps({"token": token, "at": received_at}).encode()


def read_probe(key: bytes, value: bytes | None) -> str | None:
    """Returns the token of a probe's record; None for any other record."""
    return str(json.loads(value)["token"]) if value is not None and json.loads(key)[0] == PROBE else None


def apply_record(table: InterestTable, key: bytes, value: bytes | None, *, keeps_leases: bool = True) -> None:
    """Applies a record of the topic; no value is the end of the interest with this key.

    Not every renewal of a lease is written into the topic. So a lease lasts as long as its record allows, which is
    never shorter than its node was promised.

    Args:
        keeps_leases: False for an account of the past, where a lease must not last longer than it did.
    """
    named = json.loads(key)
    if named[0] == PROBE:
        return
    if named[0] == EPOCH:
        if value is not None:
            table.apply(NewEpoch(named[1], json.loads(value)))
        return
    existing = table.get(InterestKey.from_bytes(key))
    if value is not None:
        interest = Interest.from_json(value)
        if interest.kept_until is not None:
            if existing is not None and existing.position == interest.position:
                return  # the table has it from the log, which tells the exact end
            interest = replace(interest, expires_at=interest.kept_until) if keeps_leases else interest
        table.apply(Put(interest))
    elif existing is not None:
        table.apply(Remove(existing.key, existing.position))

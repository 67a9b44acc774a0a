"""Records of the compacted topic `interests`: who wants what, edges' epochs, and the router's probes beside them."""

from __future__ import annotations

import json

from gateway.interests.changes import NewEpoch, Put, Remove
from gateway.interests.interest import Interest, InterestKey
from gateway.interests.table import InterestTable

EPOCH, PROBE = "epoch", "probe"


def epoch_record(edge: str, epoch: int) -> tuple[bytes, bytes]:
    """Key and value of an edge's epoch."""
    return json.dumps([EPOCH, edge]).encode(), json.dumps(epoch).encode()


def probe_record(partition: int, token: str, received_at: int) -> tuple[bytes, bytes]:
    """Key and value of the last probe of a partition. What was received before it has been written before it."""
    return json.dumps([PROBE, partition]).encode(), json.dumps({"token": token, "at": received_at}).encode()


def read_probe(key: bytes, value: bytes | None) -> str | None:
    """The token of a probe's record; None for any other."""
    return str(json.loads(value)["token"]) if value is not None and json.loads(key)[0] == PROBE else None


def apply_record(table: InterestTable, key: bytes, value: bytes | None) -> None:
    """A record of the topic; no value is the end of the interest with this key."""
    named = json.loads(key)
    if named[0] == PROBE:
        return
    if named[0] == EPOCH:
        if value is not None:
            table.apply(NewEpoch(named[1], json.loads(value)))
    elif value is not None:
        table.apply(Put(Interest.from_json(value)))
    else:
        gone = InterestKey.from_bytes(key)
        for interest in table.of(gone.subscriber):
            if interest.key == gone:
                table.apply(Remove(gone, interest.position))

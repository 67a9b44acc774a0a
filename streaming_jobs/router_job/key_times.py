"""Counts the trust store's keys that hold, and says when they end, so that an operator hears of it in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from gateway.auth.keyring import Key

EXPIRING_SECONDS = 14 * 24 * 3600.0
"""A key that ends within this counts as `expiring`: two weeks, as certificates are usually warned of."""
KEY_STATES = ("future", "valid", "expiring", "expired")

Nodes = Mapping[bytes, Mapping[bytes, Key]]
"""The nodes and their keys, as in a KeyRing."""


def key_state(not_before: int | None, not_after: int | None, now: float) -> str:
    """Returns the state of a key now: future, valid, expiring or expired.

    >>> key_state(None, 2_000_000, 1.0), key_state(None, 1_000_000, 1.0), key_state(None, None, 1.0)
    ('expiring', 'expired', 'valid')
    """
    if not_before is not None and now < not_before / 1e6:
        return "future"
    if not_after is None:
        return "valid"
    seconds_left = not_after / 1e6 - now
    return "expired" if seconds_left <= 0 else "expiring" if seconds_left < EXPIRING_SECONDS else "valid"


def next_key_end(nodes: Nodes, now: float) -> float:
    """Returns when the next of the keys in force ends; 0 if none ever does."""
    keys = chain.from_iterable(node_keys.values() for node_keys in nodes.values())
    in_force = (key for key in keys if key_state(key.not_before, key.not_after, now) in ("valid", "expiring"))
    return min((key.not_after / 1e6 for key in in_force if key.not_after is not None), default=0.0)


def next_node_end(nodes: Nodes, now: float) -> float:
    """Returns when the next node is left without any key; 0 if none is.

    A key that ends while another of its node goes on is a rotation as it should be, and a node whose keys have all
    ended is one that was given up: neither is news.
    """
    last_ends = (_last_end(node_keys.values()) for node_keys in nodes.values())
    return min((end for end in last_ends if now < end < float("inf")), default=0.0)


def _last_end(keys: Iterable[Key]) -> float:
    return max((float("inf") if key.not_after is None else key.not_after / 1e6 for key in keys), default=float("inf"))

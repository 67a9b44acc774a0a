"""Interests with only the fields that matter to a test."""

from __future__ import annotations

from typing import Any

from gateway.core.ids import FramePosition
from gateway.interests import Interest, InterestKey, Verb

NOW = 1_759_190_400_000_000
EDGE = "edge-0"


def at(offset: int, partition: int = 0, index: int = 0) -> FramePosition:
    return FramePosition(partition, offset, index)


def interest(subscriber: str, pattern: str, offset: int = 1, **fields: Any) -> Interest:
    defaults: dict[str, Any] = {"verb": Verb.SUBSCRIBE, "edge": EDGE, "epoch": 1, "session": 1, "position": at(offset)}
    names = {"protocol": "yamp", "listener": "apps"}
    return Interest(subscriber=subscriber, pattern=pattern, **{**defaults, **names, **fields})


def key(subscriber: str, pattern: str, verb: Verb = Verb.SUBSCRIBE, group: str = "") -> InterestKey:
    return InterestKey(subscriber, verb, group, pattern)

"""One interest: its subscriber, where to send events, and how to encode them. Also the compacted topic's record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from gateway.core.ids import FramePosition
from gateway.records.raw_log.frames import NO_FACTS, Fact


class Verb(StrEnum):
    SUBSCRIBE = "subscribe"
    SERVE = "serve"


class InterestKey(NamedTuple):
    """The identity of an interest; as bytes, the key of its record in the compacted topic.

    >>> InterestKey.from_bytes(InterestKey("edge-0.1.7", Verb.SERVE, "", "sum").to_bytes()).pattern
    'sum'
    """

    subscriber: str
    verb: Verb
    group: str
    pattern: str

    def to_bytes(self) -> bytes:
        """Returns a JSON list: a pattern may hold any character, so no separator would be safe."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> InterestKey:
        subscriber, verb, group, pattern = json.loads(data)
        return cls(subscriber, Verb(verb), group, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """One interest in subjects that match a pattern.

    `subscriber` is a session's id or a node that outlives its sessions (`emm:<uuid>`).

    A destination is a session (`edge`, `epoch`, `session`) or, for datagrams, an `address` behind an edge's listener.
    `expires_at` (µs since the epoch) ends a lease: compared with the receive time of the event, never with a clock, so
    that a replay decides as it was decided then. `durable` interests outlive their edge's epoch; `left` is the session
    at another edge that their node had before, where it has come back here and that is what changed last.
    `kept_until` is how long a renewed lease may last by its record in the compacted topic: not every renewal is written
    there, so it is later than `expires_at`.
    """

    subscriber: str
    verb: Verb
    pattern: str
    group: str = ""
    edge: str
    epoch: int
    session: int = 0
    address: str = ""
    protocol: str
    listener: str
    facts: Mapping[str, Fact] = field(default_factory=lambda: NO_FACTS, hash=False)
    node: str = ""
    expires_at: int | None = None
    kept_until: int | None = None
    durable: bool = False
    left: str = ""
    position: FramePosition

    @property
    def key(self) -> InterestKey:
        return InterestKey(self.subscriber, self.verb, self.group, self.pattern)

    def alive_at(self, at_us: int) -> bool:
        return self.expires_at is None or at_us < self.expires_at

    def to_json(self) -> bytes:
        return dump(interest_fields(self))

    @classmethod
    def from_json(cls, data: bytes) -> Interest:
        return interest_from(json.loads(data))


def interest_fields(interest: Interest) -> dict[str, Any]:
    """Returns the fields as JSON takes them. `asdict` would copy deeply, and a read-only mapping cannot be copied."""
    values = {entry.name: getattr(interest, entry.name) for entry in fields(interest)} | {"facts": dict(interest.facts)}
    if interest.kept_until is None:
        del values["kept_until"]  # an older build does not know it
    return values


def interest_from(values: dict[str, Any]) -> Interest:
    return Interest(**{**values, "verb": Verb(values["verb"]), "position": position_from(values["position"])})


def position_from(values: list[int]) -> FramePosition:
    partition, offset, index = values
    return FramePosition(partition, offset, index)


def dump(values: dict[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()

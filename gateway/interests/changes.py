"""The changes of interests. A change rides in every raw partition as bytes (`to_bytes`, `from_bytes`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.core.ids import FramePosition
from gateway.interests.interest import Interest, InterestKey, Verb, dump, interest_fields, interest_from, position_from
from gateway.records.raw_log.frames import Fact


@dataclass(frozen=True, slots=True)
class Put:
    """A new interest, or a new version of one (a renewed lease)."""

    interest: Interest

    @property
    def subscriber(self) -> str:
        return self.interest.subscriber

    @property
    def position(self) -> FramePosition:
        return self.interest.position


@dataclass(frozen=True, slots=True)
class Remove:
    key: InterestKey
    position: FramePosition

    @property
    def subscriber(self) -> str:
        return self.key.subscriber


@dataclass(frozen=True, slots=True)
class EndSession:
    """Every interest of the subscriber ends."""

    subscriber: str
    position: FramePosition


@dataclass(frozen=True, slots=True)
class SetFacts:
    """The subscriber's session negotiated something new: its frames are encoded in another way from here on."""

    subscriber: str
    facts: Mapping[str, Fact]
    position: FramePosition


@dataclass(frozen=True, slots=True)
class Renew:
    """The subscriber's leases, all of them, last until `expires_at`. `kept_until`: and their records were written anew;
    None if they were not."""

    subscriber: str
    expires_at: int
    position: FramePosition
    kept_until: int | None = None


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """An edge has started anew: whatever belonged to its earlier sessions is over, but for what is durable."""

    edge: str
    epoch: int


Change = Put | Remove | EndSession | SetFacts | Renew | NewEpoch


def to_bytes(change: Change) -> bytes:
    return dump(_fields(change))


def from_bytes(data: bytes) -> Change:
    """Raises ValueError for what `to_bytes` has not made."""
    try:
        return _change(json.loads(data))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no change: {type(error).__name__}") from None


def _change(values: dict[str, Any]) -> Change:
    match values.pop("change"):
        case "put":
            return Put(interest_from(values))
        case "remove":
            subscriber, verb, group, pattern = values["key"]
            return Remove(InterestKey(subscriber, Verb(verb), group, pattern), position_from(values["position"]))
        case "end_session":
            return EndSession(values["subscriber"], position_from(values["position"]))
        case "set_facts":
            return SetFacts(values["subscriber"], values["facts"], position_from(values["position"]))
        case "renew":
            position = position_from(values["position"])
            return Renew(values["subscriber"], values["expires_at"], position, values.get("kept_until"))
        case "new_epoch":
            return NewEpoch(values["edge"], values["epoch"])
        case unknown:
            raise ValueError(f"no such change: {unknown}")


def _fields(change: Change) -> dict[str, Any]:
    match change:
        case Put(interest):
            return {"change": "put", **interest_fields(interest)}
        case Remove(key, position):
            return {"change": "remove", "key": key, "position": position}
        case EndSession(subscriber, position):
            return {"change": "end_session", "subscriber": subscriber, "position": position}
        case SetFacts(subscriber, facts, position):
            return {"change": "set_facts", "subscriber": subscriber, "facts": dict(facts), "position": position}
        case Renew(subscriber, expires_at, position, kept_until):
            renewal = {"change": "renew", "subscriber": subscriber, "expires_at": expires_at, "position": position}
            return renewal if kept_until is None else {**renewal, "kept_until": kept_until}
        case NewEpoch(edge, epoch):
            return {"change": "new_epoch", "edge": edge, "epoch": epoch}

"""Reads the interests that hold now from the compacted topic `interests`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.subjects import matches
from gateway.interests import Interest, InterestTable
from gateway.kafka.interest_reader import InterestReader
from gateway.kafka.records import open_consumer
from gateway.records.cloud_event import rfc3339


def standing(config: Config) -> list[Interest]:
    """Returns the interests in the order of their patterns. A lease that is over no longer stands, though its record
    may. Raises SetupError where Kafka does not answer."""
    table = InterestTable()
    with closing(InterestReader(config, open_consumer)) as reader:
        reader.catch_up(table)
    now = now_us()
    alive = (interest for interest in table if interest.alive_at(now))
    return sorted(alive, key=order)


def order(interest: Interest) -> tuple[str, ...]:
    return interest.verb, interest.pattern, interest.group, interest.subscriber


@dataclass(frozen=True, slots=True)
class InterestFilter:
    """Selects interests. An empty field matches all. `subject` keeps interests whose pattern matches it."""

    verb: str = ""
    subject: str = ""
    protocol: str = ""
    node: str = ""
    subscriber: str = ""

    def passes(self, interest: Interest) -> bool:
        return (
            self.verb in ("", interest.verb)
            and (not self.subject or matches(interest.pattern, self.subject))
            and self.protocol in ("", interest.protocol)
            and self.node in ("", interest.node)
            and self.subscriber in ("", interest.subscriber)
        )


def interest_row(interest: Interest) -> dict[str, Any]:
    """Returns an interest for people and programs, without what only the router needs."""
    return {
        "verb": interest.verb.value,
        "pattern": interest.pattern,
        "group": interest.group or None,
        "subscriber": interest.subscriber,
        "protocol": interest.protocol,
        "listener": interest.listener,
        "edge": interest.edge,
        "node": interest.node or None,
        "address": interest.address or None,
        "expires": None if interest.expires_at is None else rfc3339(interest.expires_at),
        "durable": interest.durable,
    }

"""Records what was sent and what came, written down while it happens."""

from __future__ import annotations

import json
import sys
import time
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class Message(NamedTuple):
    """One message. `session`: the publisher's how-manieth; a message that is sent again in the next is another."""

    publisher: str
    session: int
    number: int

    def to_json(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def from_json(cls, body: bytes | str) -> Message:
        said = json.loads(body)
        while isinstance(said, str) or (isinstance(said, list) and len(said) == 1):
            said = json.loads(said) if isinstance(said, str) else said[0]
        publisher, session, number = said
        return cls(sys.intern(str(publisher)), int(session), int(number))


@dataclass
class Sent:
    """`acknowledged`: the mesh has promised to deliver these. Times are monotonic."""

    at: dict[Message, float] = field(default_factory=dict)
    acknowledged: set[Message] = field(default_factory=set)

    def add(self, message: Message) -> None:
        self.at[message] = time.monotonic()


@dataclass
class Received:
    """Records what one session received. `ended`: why it is over, which it must not be."""

    name: str
    ended: str = ""
    messages: list[tuple[Message, float]] = field(default_factory=list)
    counts: Counter[Message] = field(default_factory=Counter)
    """Counted as they come: a long run has millions."""

    def add(self, message: Message, came: float | None = None) -> None:
        self.messages.append((message, time.monotonic() if came is None else came))
        self.counts[message] += 1

    def since(self, at: float) -> list[tuple[Message, float]]:
        """Returns what came after a moment."""
        return self.messages[bisect_left(self.messages, at, key=lambda one: one[1]) :]


@dataclass
class Requests:
    """Numbers of requests by what became of them, at both ends."""

    answers: dict[int, str] = field(default_factory=dict)
    asked: Counter[int] = field(default_factory=Counter)

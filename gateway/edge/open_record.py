"""Records of the raw log on their way: one that is being filled for each partition, and those that were sent."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.edge.run_parts import Settled
from gateway.edge.traces import Received
from gateway.records.raw_log.container import ContainerBuilder


class AckListener(Hashable, Protocol):
    """Counts datagrams, for which nobody waits one by one."""

    def settled(self, frames: int, seconds: float, accepted: bool) -> None: ...


@dataclass(slots=True)
class SentRecord:
    """A record that was sent and is not settled yet. `weight` is what it counts as in flight."""

    partition: int
    frames: int
    weight: int
    waiting: list[Settled]
    counted: dict[AckListener, int]
    opened_at: float
    sent_at: float
    received: Received = ()
    offset: int = -1
    ended_at: float = 0.0

    @property
    def is_awaited(self) -> bool:
        """True if somebody waits for the result: a peer, a trace, or whoever probes Kafka with an empty record."""
        return bool(self.waiting or self.received or not self.frames)


@dataclass(slots=True)
class OpenRecord:
    """The record of a partition that is filled next. `logged_to` is the last offset of those before it."""

    builder: ContainerBuilder
    waiting: list[Settled] = field(default_factory=list)
    counted: dict[AckListener, int] = field(default_factory=dict)
    weight: int = 0
    opened_at: float = 0.0
    logged_to: int = -1

    def close(self, partition: int, now: float, *, traced: bool) -> tuple[SentRecord, bytes]:
        """Returns what has been gathered, as a record to be sent, and begins the next one."""
        received = self.builder.received() if traced else ()
        sent = SentRecord(
            partition, len(self.builder), self.weight, self.waiting, self.counted, self.opened_at, now, received
        )
        self.waiting, self.counted, self.weight, self.opened_at = [], {}, 0, 0.0
        return sent, self.builder.build()

"""Holds what waits to be written to one peer: in its session, for the end of the loop's turn, and in its carrier."""

from __future__ import annotations

from gateway.edge.carriers.carrier import Carrier
from gateway.edge.memory_budget import MemoryBudget
from gateway.protocols.session import Session


class Outbox:
    """Bounds what waits for one peer. `unsent_bytes` is what the session was given and has not handed over yet."""

    __slots__ = ("_carrier", "_memory", "_session", "unsent_bytes")

    def __init__(self, session: Session, carrier: Carrier, memory: MemoryBudget) -> None:
        self._session = session
        self._carrier = carrier
        self._memory = memory
        self.unsent_bytes = 0

    @property
    def queued_bytes(self) -> int:
        return self._carrier.queued_bytes() + self.unsent_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that the edge holds in memory for this session alone."""
        return self._carrier.own_queued_bytes() + self.unsent_bytes + self._session.held_bytes

    def has_room(self, most_bytes: int, size: int = 0) -> bool:
        """Returns True if so much more may wait for the peer.

        It flushes first: what was not yet written to the peer does not show that it is slow.
        """
        if self.unsent_bytes and self.queued_bytes + size > most_bytes:
            self.flush()
        return self.queued_bytes + size <= most_bytes

    def flush(self) -> None:
        """Hands everything that the session has to send to the carrier."""
        self.unsent_bytes = 0
        if messages := self._session.data_to_send():
            self._memory.count(sum(map(len, messages)))
            self._carrier.write(messages)

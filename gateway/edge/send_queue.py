"""Queues what waits for one peer: what its session has to send, and what its carrier has not written yet."""

from __future__ import annotations

from gateway.edge.carriers.carrier import Carrier
from gateway.edge.memory_budget import MemoryBudget
from gateway.protocols.session import Session


class SendQueue:
    """Bounds what waits for one peer, and hands it to the carrier.

    `unsent_bytes` are the frames that the session has been given since the last `flush`.
    """

    def __init__(self, session: Session, carrier: Carrier, memory: MemoryBudget) -> None:
        self._session = session
        self._carrier = carrier
        self._memory = memory
        self._limit_bytes = 0
        self.unsent_bytes = 0

    def use(self, limit_bytes: int) -> None:
        """Sets the bound, which holds from now on."""
        self._limit_bytes = limit_bytes
        self._carrier.limit_writes(2 * limit_bytes, limit_bytes)

    @property
    def queued_bytes(self) -> int:
        """The bytes that wait for the peer."""
        return self._carrier.queued_bytes() + self.unsent_bytes

    @property
    def own_queued_bytes(self) -> int:
        """The bytes that wait for this peer alone: what several connections share is left out."""
        return self._carrier.own_queued_bytes() + self.unsent_bytes

    def has_room(self, size: int = 0) -> bool:
        """True if so much more may wait for the peer. Flushes first: unwritten frames do not show that it is slow."""
        if self.unsent_bytes and self.queued_bytes + size > self._limit_bytes:
            self.flush()
        return self.queued_bytes + size <= self._limit_bytes

    def flush(self) -> None:
        """Hands everything that the session has to send to the carrier."""
        self.unsent_bytes = 0
        if messages := self._session.data_to_send():
            self._memory.count(sum(map(len, messages)))
            self._carrier.write(messages)

"""Hands deliveries to one session, and writes what the session has to say to its carrier."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from gateway.core.event import Kind
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.reasons import MeshError
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.memory_budget import MemoryBudget
from gateway.edge.session_log import SessionLog
from gateway.protocols.actions import REACHED, Delivered, Delivery, Outcome
from gateway.protocols.session import Session
from gateway.records.raw_log.frames import FrameSource

_faults = RateLimitedFaultLog(logging.getLogger(__name__))


class Outbox:
    """Bounds what waits for one peer, and counts what it is given.

    `pending` is the number of deliveries that have no end yet.

    Args:
        pump_soon: does what the session asks for, at the end of this turn of the loop.
        on_delivered: hears how each delivery ended.
        on_fault: is called when a delivery has broken the session.
    """

    def __init__(
        self,
        session: Session,
        session_log: SessionLog,
        carrier: Carrier,
        memory: MemoryBudget,
        *,
        pump_soon: Callable[[], None],
        on_delivered: Callable[[Delivered], None],
        on_fault: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._log = session_log
        self._carrier = carrier
        self._memory = memory
        self._pump_soon = pump_soon
        self._on_delivered = on_delivered
        self._on_fault = on_fault
        self._most_bytes = 0
        self._unsent_bytes = 0  # what the session was given and has not handed over yet
        self.pending = self.delivered_frames = 0

    def reconfigure(self, most_bytes: int) -> None:
        """Lets so much wait for the peer."""
        self._most_bytes = most_bytes
        self._carrier.limit_writes(2 * most_bytes, most_bytes)

    @property
    def source(self) -> FrameSource:
        return self._log.source

    @property
    def queued_bytes(self) -> int:
        return self._carrier.queued_bytes() + self._unsent_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that the edge holds in memory for this session alone."""
        return self._carrier.held_bytes + self._unsent_bytes + self._session.held_bytes

    def deliver(self, delivery: Delivery) -> None:
        """Delivers to the session. The bytes are written at the end of this turn of the loop."""
        self.pending += 1
        is_full = not self._has_room()
        if is_full or (self._session.half_closed and delivery.kind is Kind.REQUEST):
            if delivery.kind is Kind.REQUEST and delivery.reply is not None:
                self._log.abandon((delivery.reply,), MeshError.UNDELIVERABLE)
            why = "the peer reads too slowly" if is_full else "the peer answers no more"
            self.end(Delivered(delivery, Outcome.UNDELIVERABLE, why))
            return
        self._unsent_bytes += len(delivery.frame)
        try:
            self._session.deliver(delivery, self._loop.time())
        except Exception:
            _faults.log_exception(f"while delivering to a session of {self._session.protocol}")
            self.end(Delivered(delivery, Outcome.UNDELIVERABLE, "internal error", refused=True))
            self._on_fault()
        self._pump_soon()

    def end(self, delivered: Delivered) -> None:
        """Notes the end of a delivery. Answers of the edge itself have no event, and nobody hears of their end."""
        if delivered.delivery.event_id:
            self.pending -= 1
            self.delivered_frames += delivered.outcome in REACHED
            self._on_delivered(delivered)

    def write_run(self, frames: Sequence[bytes], size: int) -> bool:
        """Takes events that need nothing of the connection, for the next `flush`. `size` is that of all frames.

        Returns False, and does nothing, where each must go through `deliver`.
        """
        if not self._has_room(size) or not self._session.write_events(frames):
            return False
        self._unsent_bytes += size
        self.delivered_frames += len(frames)
        return True

    def _has_room(self, size: int = 0) -> bool:
        """Returns True if so much more may wait for the peer.

        It flushes first: what was not yet written to the peer does not show that it is slow.
        """
        if self._unsent_bytes and self.queued_bytes + size > self._most_bytes:
            self.flush()
        return self.queued_bytes + size <= self._most_bytes

    def flush(self) -> None:
        """Hands everything that the session has to send to the carrier."""
        self._unsent_bytes = 0
        if messages := self._session.data_to_send():
            self._memory.count(sum(map(len, messages)))
            self._carrier.write(messages)

"""Deliveries to datagram peers, one by one: collected by listener, and handed to the system many at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Protocol

from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import datagram_name
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.sending import KNOWN_ADDRESSES, Datagram, OfT
from gateway.edge.delivery.egress_delivery import EgressDelivery, OutcomeRecorder, Receiver
from gateway.edge.delivery.offset_tracker import OffsetTracker
from gateway.edge.delivery.runs import RunDatagrams
from gateway.protocols.actions import Outcome

_faults = RateLimitedFaultLog(logging.getLogger(__name__))


class Datagrams(RunDatagrams, Protocol):
    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        """Sends the datagrams in order. `on_sent` hears of each: "" once the system has it, or what was in the way."""


class DatagramDeliveries:
    """Sends single deliveries to datagram peers, and notes how each of them ended.

    Args:
        listeners: the senders of datagrams, by the names of their listeners.
    """

    def __init__(self, listeners: Mapping[str, Datagrams], outcomes: OutcomeRecorder, offsets: OffsetTracker) -> None:
        self._listeners = listeners
        self._outcomes = outcomes
        self._offsets = offsets
        self._waiting: dict[str, list[Datagram[EgressDelivery]]] = {}

    def add(self, listener: str, address: str, delivery: EgressDelivery) -> None:
        waiting = self._waiting.setdefault(listener, [])
        waiting.append((delivery.frame, address, delivery))
        if len(waiting) >= AT_ONCE:
            self.send(listener)

    def send_all(self) -> None:
        for listener in list(self._waiting):
            self.send(listener)

    def send(self, listener: str) -> None:
        """Sends what waits with one call if the system can: that costs less than one by one."""
        waiting, on_sent = self._waiting.pop(listener, []), partial(self._on_sent, listener)
        if not waiting:
            return
        socket = self._listeners.get(listener)
        try:
            if socket is None:
                on_sent(waiting, "the listener is gone")
            else:
                socket.send(waiting, on_sent)
        except Exception:
            _faults.log_exception(f"while sending {len(waiting)} datagrams of {listener}")
            for _, _, delivery in waiting:
                self._offsets.settle(delivery.offset)

    def _on_sent(self, listener: str, datagrams: Sequence[Datagram[EgressDelivery]], detail: str) -> None:
        outcome = Outcome.UNDELIVERABLE if detail else Outcome.WRITTEN
        for _, address, delivery in datagrams:
            self._outcomes.end(delivery, datagram_receiver(listener, address), outcome, detail)


@lru_cache(KNOWN_ADDRESSES)
def datagram_receiver(listener: str, address: str) -> Receiver:
    return Receiver(datagram_name(listener, address), listener)

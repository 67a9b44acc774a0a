"""A delivery on this edge, and the one way it ends."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gateway.deliveries import DeliveryOutcome
from gateway.edge.confirmations import Awaited
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.outcomes import OutcomeLog
from gateway.edge.traces import EdgeTraces
from gateway.protocols.session import Delivery, Outcome
from gateway.raw_log.frames import durable_parts

DELIVERED = frozenset({Outcome.CONFIRMED, Outcome.WRITTEN})


@dataclass(slots=True)
class HandedDelivery(Delivery):
    """`offset`: of its egress record. `protocol`: what its frame is written in. `owed_to`: the durable name of the node
    that gets it even if its session is away. `partition`: the raw one that its frame stands in. `given`: another edge
    owed it before. `trace`: the `traceparent` it follows from, and then `handed_at`: when it was handed to us."""

    offset: int = 0
    protocol: str = ""
    owed_to: str = ""
    partition: int = 0
    given: bool = False
    trace: str = ""
    handed_at: int = 0
    awaited: Awaited | None = field(default=None, repr=False, compare=False)
    """Somebody waits until all deliveries of its record are over."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Whose a delivery was. `destination`: the session's id, `listener host:port`, or the durable name of a node."""

    destination: str
    listener: str = ""
    node: str = ""


class Ends:
    """Counts the end of each delivery and writes it down."""

    def __init__(self, log: OutcomeLog, metrics: EdgeMetrics, traces: EdgeTraces | None = None) -> None:
        self._log = log
        self._metrics = metrics
        self._traces = traces

    def end(self, delivery: HandedDelivery, receiver: Receiver, outcome: Outcome, detail: str = "") -> None:
        at = time.time_ns() // 1000
        row = DeliveryOutcome(
            delivery.event_id, receiver.destination, outcome.value, detail, at, delivery.part, receiver.node
        )
        owed = bool(delivery.owed_to)
        self._log.add(row, delivery.offset, owed=owed)
        if delivery.awaited is not None:
            delivery.awaited.ended(outcome)
        self._metrics.of_name(receiver.listener, delivery.protocol).delivered(outcome)
        if self._traces is not None and delivery.trace:
            failed = "" if outcome in DELIVERED else detail or outcome.value
            self._traces.delivered(delivery, receiver.destination, at, outcome.value, failed)
        if outcome is Outcome.UNDELIVERABLE:
            said = {"protocol": delivery.origin, "peer": receiver.destination, "node": receiver.node}
            self._log.reject(row, delivery.frame, said, delivery.offset, owed=owed)
        elif delivery.origin and outcome is not Outcome.EXPIRED:
            self._metrics.observe_end_to_end(delivery.origin, delivery.protocol, (at - delivery.received_at) / 1e6)

    def end_owed(self, delivery: HandedDelivery, outcome: Outcome, detail: str) -> None:
        """One that was owed to a node: whichever session it went to, it is the node that got it."""
        node, listener = durable_parts(delivery.owed_to)
        self.end(delivery, Receiver(delivery.owed_to, listener, node), outcome, detail)

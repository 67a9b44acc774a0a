"""A delivery on this edge, and the one way it ends."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gateway.core.ids import durable_parts
from gateway.edge.delivery.delivery_acks import DeliveryCountdown
from gateway.edge.delivery.outcomes import OutcomeLog
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.traces import EdgeTraces
from gateway.protocols.actions import REACHED, Delivery, Outcome
from gateway.records.deliveries import DeliveryOutcome, RunOutcome
from gateway.records.egress import Deliver, Group
from gateway.records.raw_log.frames import ReplyAddress

DeliveryKey = tuple[int, str, int]
"""Names a delivery among those of one receiver: the offset of its egress record, its event, and its part."""


@dataclass(slots=True)
class EgressDelivery(Delivery):
    """A delivery that was handed to a session.

    `offset` is that of its egress record, and `partition` the raw partition of its frame. `protocol` is what its frame
    is written in. `owed_to` is the durable name of the node that gets it even if its session is away. `is_migrated`
    means that another edge owed it before. `trace` is the `traceparent` it follows from, and `handed_at` then the time
    when it was handed to us.
    """

    offset: int = 0
    protocol: str = ""
    owed_to: str = ""
    partition: int = 0
    is_migrated: bool = False
    trace: str = ""
    handed_at: int = 0
    awaited: DeliveryCountdown | None = field(default=None, repr=False, compare=False)
    """Somebody waits until all deliveries of its record are over."""

    @property
    def key(self) -> DeliveryKey:
        return self.offset, self.event_id, self.part


class Receiver(NamedTuple):
    """The receiver of a delivery. `destination` is a session's id, `listener host:port`, or a node's durable name."""

    destination: str
    listener: str = ""
    node: str = ""


class OutcomeRecorder:
    """Writes down the end of each delivery and counts it. Counts are told at the end of a turn of the loop, together:
    that costs a tenth of telling each."""

    def __init__(self, log: OutcomeLog, metrics: EdgeMetrics, traces: EdgeTraces | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._metrics = metrics
        self._traces = traces
        self._ended: defaultdict[tuple[str, str, str, str], list[int]] = defaultdict(list)

    def end(self, delivery: EgressDelivery, receiver: Receiver, outcome: Outcome, detail: str = "") -> None:
        if delivery.only_ends_request and outcome is Outcome.UNDELIVERABLE:
            outcome = Outcome.EXPIRED  # nobody has missed anything
        at, value = time.time_ns() // 1000, str(outcome)
        row = DeliveryOutcome(delivery.event_id, receiver.destination, value, detail, at, delivery.part, receiver.node)
        owed = bool(delivery.owed_to)
        self._log.add(row, delivery.offset, owed=owed)
        if delivery.awaited is not None:
            delivery.awaited.ended(outcome)
        if not self._ended:
            self._loop.call_soon(self._update_metrics)
        self._ended[receiver.listener, delivery.protocol, delivery.origin, value].append(at - delivery.received_at)
        if self._traces is not None and delivery.trace:
            failed = "" if outcome in REACHED else detail or value
            self._traces.delivered(delivery, receiver.destination, at, value, failed)
        if outcome is Outcome.UNDELIVERABLE:
            headers = {"protocol": delivery.origin, "peer": receiver.destination, "node": receiver.node}
            self._log.reject(row, delivery.frame, headers, delivery.offset, owed=owed)

    def run_ended(self, outcome: RunOutcome, offset: int, deliveries: int) -> None:
        """Writes down deliveries that ended alike; `observe_run` counts them."""
        self._log.add_run(outcome, offset, deliveries)

    def observe_run(
        self, listener: str, protocol: str, origin: str, took_us: NDArray[np.int64], receivers: int
    ) -> None:
        """Counts frames that were written, each to so many receivers, and how long that took."""
        self._metrics.of_name(listener, protocol).delivered(Outcome.WRITTEN.value, len(took_us) * receivers)
        if origin:
            self._metrics.observe_run(origin, protocol, np.maximum(took_us, 0) / 1e6, receivers)

    def _update_metrics(self) -> None:
        ended, self._ended = self._ended, defaultdict(list)
        for (listener, protocol, origin, outcome), took_us in ended.items():
            self._metrics.of_name(listener, protocol).delivered(outcome, len(took_us))
            if origin and outcome in REACHED:
                self._metrics.observe_end_to_end(origin, protocol, [max(us, 0) / 1e6 for us in took_us])

    def end_owed(self, delivery: EgressDelivery, outcome: Outcome, detail: str) -> None:
        """Ends a delivery that was owed to a node. Whichever session took it, the node is its receiver."""
        node, listener = durable_parts(delivery.owed_to)
        self.end(delivery, Receiver(delivery.owed_to, listener, node), outcome, detail)


def to_delivery(
    offset: int, record: Deliver, group: Group, awaited: DeliveryCountdown | None, owed_to: str = ""
) -> EgressDelivery:
    """Makes a delivery, by position in the order of the fields: by name it takes twice as long."""
    position = record.position
    return EgressDelivery(
        record.event_id,
        record.kind,
        record.subject,
        group.frame,
        group.stamps,
        ReplyAddress.unpack(group.reply) if group.reply else None,
        group.request,
        record.origin,
        record.received_at,
        position.part,
        offset,
        group.protocol,
        owed_to,
        position.partition,
        record.is_migrated,
        record.trace,
        time.time_ns() // 1000 if record.trace else 0,
        awaited,
    )

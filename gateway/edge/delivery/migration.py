"""A node that is owed something has come back at another edge: what is owed goes there, by way of the raw log.

    router, partition p               old edge                      new edge
    the move is applied ────give────► takes out what it owes of p
                        ─────────────────expect───────────────────► holds what is new of p
      ◄── raw log: each delivery, then the end of them ──┘
      ─────────────────────────given, …, done─────────────────────► first those, then what it has held

One raw partition after another, for order is kept in each, and the move stands at a place of its own in each. What the
old edge has taken out stays open in its ledger until all of it stands in the raw log: killed before that, its successor
finds both again, the debt and the move. An old edge that is away is waited for, but not for ever. What is too large for
the log in the form that it takes there is undeliverable.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial

from gateway.core.clock import now_us
from gateway.edge.delivery.egress_delivery import EgressDelivery
from gateway.edge.delivery.offset_tracker import OffsetTracker
from gateway.edge.delivery.redelivery import End, RedeliveryQueues
from gateway.edge.edge_log import EdgeLog
from gateway.protocols.actions import Outcome
from gateway.records.egress import MigrationPhase, MigrationStep
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import DeliveryMigrated, MigrationFinished

WAIT_SECONDS = 30.0
"""The wait for an old edge, which may have been killed and be on its way up. After that what is new goes on, and what
is owed comes late: order is given up before delivery is."""
TOO_LARGE = "too large to be handed to another edge: kafka.message_bytes"


class QueueMigration:
    """Hands what is owed to a node from edge to edge.

    Steps come open in the ledger, as owed. `largest_frame` is that of the raw log.
    """

    def __init__(
        self,
        owed: RedeliveryQueues,
        end: End,
        edge_log: EdgeLog,
        ledger: OffsetTracker,
        clock: Callable[[], float],
        *,
        largest_frame: int,
    ) -> None:
        self._end = end
        self._largest_frame = largest_frame
        self._owed = owed
        self._log = edge_log
        self._ledger = ledger
        self._clock = clock

    def take(self, offset: int, partition: int, handover: MigrationStep) -> None:
        """Takes a step of a handover. `offset` is that of its egress record, `partition` the raw one that it is
        about."""
        over = partial(self._ledger.settle, offset, owed=True)
        match handover.step:
            case MigrationPhase.GIVE:
                self._give(partition, handover, over)
            case MigrationPhase.EXPECT:
                until = self._clock() + WAIT_SECONDS
                self._owed.expect(handover.node, partition, handover.move, until, over)
            case MigrationPhase.DONE:
                self._owed.arrived(handover.node, partition, handover.move)
                over()

    def _give(self, partition: int, handover: MigrationStep, over: Callable[[], None]) -> None:
        given: list[EgressDelivery] = []
        now = now_us()
        for delivery in self._owed.take_out(handover.node, partition, handover.session):
            debt = _debt(delivery, handover)
            if len(debt) > self._largest_frame:
                self._end(delivery, Outcome.UNDELIVERABLE, TOO_LARGE)
                continue
            self._log.write_again(partition, debt, delivery.event_id, now)
            given.append(delivery)

        def durable() -> None:
            for delivery in given:
                self._ledger.settle(delivery.offset, owed=True)
            over()

        self._log.write(partition, MigrationFinished(handover.node, handover.move, handover.edge), durable)


def _debt(delivery: EgressDelivery, handover: MigrationStep) -> bytes:
    return control_frames.encode(
        DeliveryMigrated(
            handover.node,
            handover.move,
            handover.edge,
            delivery.part,
            delivery.protocol,
            delivery.kind.value,
            delivery.subject,
            delivery.origin,
            delivery.received_at,
            b64encode(delivery.frame).decode(),
            delivery.stamps,
        )
    )

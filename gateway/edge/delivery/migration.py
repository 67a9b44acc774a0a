"""A node that is owed something has come back at another edge: what is owed goes there, by way of the raw log.

    router, partition p               old edge                      new edge
    the move is applied ────give────► takes out what it owes of p
                        ─────────────────expect───────────────────► holds what is new of p
      ◄── raw log: each delivery, then the end of them ──┘
      ─────────────────────────given, …, done─────────────────────► first those, then what it has held

One raw partition after another, for order is kept in each, and the move stands at a place of its own in each. What the
old edge has taken out stays open in its tracker until all of it stands in the raw log: killed before that, its
successor finds both again, the deliveries and the move. An old edge that is away is waited for, but not for ever. What
is too large for the log in the form that it takes there is undeliverable.
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

    Steps come open in the tracker, as owed. `largest_frame` is that of the raw log.
    """

    def __init__(
        self,
        queues: RedeliveryQueues,
        end: End,
        edge_log: EdgeLog,
        offsets: OffsetTracker,
        clock: Callable[[], float],
        *,
        largest_frame: int,
    ) -> None:
        self._end = end
        self._largest_frame = largest_frame
        self._queues = queues
        self._log = edge_log
        self._offsets = offsets
        self._clock = clock

    def take(self, offset: int, partition: int, entry: MigrationStep) -> None:
        """Takes a step of a migration. `offset` is that of its egress record; the step is about the raw `partition`."""
        on_ended = partial(self._offsets.settle, offset, owed=True)
        match entry.step:
            case MigrationPhase.GIVE:
                self._give(partition, entry, on_ended)
            case MigrationPhase.EXPECT:
                until = self._clock() + WAIT_SECONDS
                self._queues.expect(entry.node, partition, entry.move, until, on_ended)
            case MigrationPhase.DONE:
                self._queues.arrived(entry.node, partition, entry.move)
                on_ended()

    def _give(self, partition: int, entry: MigrationStep, on_ended: Callable[[], None]) -> None:
        migrating: list[EgressDelivery] = []
        now = now_us()
        for delivery in self._queues.take_out(entry.node, partition, entry.session):
            moved = _migrated(delivery, entry)
            if len(moved) > self._largest_frame:
                self._end(delivery, Outcome.UNDELIVERABLE, TOO_LARGE)
                continue
            self._log.write_again(partition, moved, delivery.event_id, now)
            migrating.append(delivery)

        def durable() -> None:
            for delivery in migrating:
                self._offsets.settle(delivery.offset, owed=True)
            on_ended()

        self._log.write(partition, MigrationFinished(entry.node, entry.move, entry.edge), durable)


def _migrated(delivery: EgressDelivery, entry: MigrationStep) -> bytes:
    return control_frames.encode(
        DeliveryMigrated(
            entry.node,
            entry.move,
            entry.edge,
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

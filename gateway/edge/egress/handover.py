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
from typing import Protocol

from gateway.clock import now_us
from gateway.edge.egress.delivery import HandedDelivery
from gateway.edge.egress.ledger import Ledger
from gateway.edge.egress.owed import End, Owed
from gateway.egress import MigrationStep, Step
from gateway.protocols.actions import Outcome
from gateway.raw_log import mesh_frames
from gateway.raw_log.frames import Again, RawFrame, Source
from gateway.raw_log.mesh_frames import DebtGiven, DebtsGiven

WAIT_SECONDS = 30.0
"""The wait for an old edge, which may have been killed and be on its way up. After that what is new goes on, and what
is owed comes late: order is given up before delivery is."""
TOO_LARGE = "too large to be handed to another edge: kafka.message_bytes"


class Publisher(Protocol):
    """The part of the raw publisher that handovers use."""

    def add_again(self, partition: int, frame: RawFrame, again: Again) -> None: ...
    def add_run(
        self, partition: int, source: Source, data: bytes, lengths: tuple[int, ...],
        *, settled: Callable[[bool], None] | None = None,
    ) -> None: ...  # fmt: skip


class Handovers:
    """Hands what is owed to a node from edge to edge.

    `source` is this edge, as it signs its own frames. Steps come open in the ledger, as owed. `largest_frame` is that
    of the raw log.
    """

    def __init__(
        self, owed: Owed, end: End, publisher: Publisher, source: Source, ledger: Ledger, clock: Callable[[], float],
        *, largest_frame: int,
    ) -> None:  # fmt: skip
        self._end = end
        self._largest_frame = largest_frame
        self._owed = owed
        self._publisher = publisher
        self._source = source
        self._ledger = ledger
        self._clock = clock

    def take(self, offset: int, partition: int, handover: MigrationStep) -> None:
        """Takes a step of a handover. `offset` is that of its egress record, `partition` the raw one that it is
        about."""
        over = partial(self._ledger.settle, offset, owed=True)
        match handover.step:
            case Step.GIVE:
                self._give(partition, handover, over)
            case Step.EXPECT:
                until = self._clock() + WAIT_SECONDS
                self._owed.expect(handover.node, partition, handover.move, until, over)
            case Step.DONE:
                self._owed.arrived(handover.node, partition, handover.move)
                over()

    def _give(self, partition: int, handover: MigrationStep, over: Callable[[], None]) -> None:
        given: list[HandedDelivery] = []
        now = now_us()
        for delivery in self._owed.take_out(handover.node, partition, handover.session):
            debt = _debt(delivery, handover)
            if len(debt) > self._largest_frame:
                self._end(delivery, Outcome.UNDELIVERABLE, TOO_LARGE)
                continue
            self._publisher.add_again(partition, RawFrame(debt, self._source, now), Again(delivery.event_id, now))
            given.append(delivery)
        end = mesh_frames.encode(DebtsGiven(handover.node, handover.move, handover.edge))

        def settled(accepted: bool) -> None:
            if accepted:
                for delivery in given:
                    self._ledger.settle(delivery.offset, owed=True)
                over()

        self._publisher.add_run(partition, self._source, end, (len(end),), settled=settled)


def _debt(delivery: HandedDelivery, handover: MigrationStep) -> bytes:
    return mesh_frames.encode(
        DebtGiven(
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

"""Carries out what the router wrote for this edge: from the egress partition, in order, to sessions and datagrams.

Records come in batches from the reader's thread and are handled in slices, so that an event for ten thousand sessions
delays nobody's keepalive.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.core.event import Kind
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import session_id
from gateway.edge.delivery.datagram_deliveries import DatagramDeliveries, Datagrams, datagram_receiver
from gateway.edge.delivery.delivery_acks import DeliveryCountdown, PendingAcks, Released
from gateway.edge.delivery.egress_delivery import EgressDelivery, OutcomeRecorder, Receiver, to_delivery
from gateway.edge.delivery.migration import QueueMigration
from gateway.edge.delivery.offset_tracker import OffsetTracker
from gateway.edge.delivery.partition_barrier import PartitionBarrier
from gateway.edge.delivery.previous_run import PreviousRun
from gateway.edge.delivery.reader import Batch
from gateway.edge.delivery.redelivery import RedeliveryQueues
from gateway.edge.delivery.runs import DeliveryRun, RunDelivery, RunPlans, RunSession
from gateway.edge.edge_log import EdgeLog
from gateway.protocols.actions import Delivery, Outcome
from gateway.records.egress import (
    Deliver,
    EdgeRestarted,
    Entry,
    Group,
    InterestApplied,
    MigrationStep,
    RecordConfirmed,
    SourceRefused,
)
from gateway.records.egress_codec import EgressRecord

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.005
END_OF_BATCH = (-1, None)
"""Stands behind the records of a batch. (An offset with nothing stands behind the pieces of a record.)"""
Piece = EgressRecord | DeliveryRun | Entry | None
"""A record that was not looked at yet, a part of one, or the end of one."""


class OpenSession(RunSession, Protocol):
    def deliver(self, delivery: Delivery) -> None: ...


@dataclass(frozen=True, slots=True)
class DeliveryBooks:
    """Groups the records of what this edge has to deliver and of what became of it."""

    offsets: OffsetTracker
    outcomes: OutcomeRecorder
    queues: RedeliveryQueues
    migration: QueueMigration


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers of this edge.

    Args:
        session: returns the session of a number, in this epoch.
        datagrams: the senders of datagrams, by listener.
        drop_requests: tells the peers that nobody at an edge that has restarted waits for their answers.
        slow_down: has less taken of a source that the router refuses.
    """

    session: Callable[[int], OpenSession | None]
    datagrams: Mapping[str, Datagrams]
    drop_requests: Callable[[EdgeRestarted], None]
    slow_down: Callable[[SourceRefused], None]


class Dispatch:
    """Hands the entries of egress records to sessions and datagrams.

    Args:
        books: all records are noted there.
        edge_log: hears what this edge itself has to say to requesters and other edges.
        confirm_seconds: how many seconds an answer waits for the confirmations of other edges.
        on_batch_handled: is called for each batch when it has been handled.
    """

    def __init__(
        self,
        books: DeliveryBooks,
        edge_log: EdgeLog,
        peers: Peers,
        previous_run: PreviousRun,
        *,
        confirm_seconds: Callable[[], float],
        on_batch_handled: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._edge, self._epoch = edge_log.life
        self._offsets, self._outcomes = books.offsets, books.outcomes
        self._queues, self._migration = books.queues, books.migration
        self._barrier: PartitionBarrier[tuple[int, Deliver]] = PartitionBarrier(edge_log.partitions)
        self._log = edge_log
        self._peers = peers
        self._datagrams = DatagramDeliveries(peers.datagrams, books.outcomes, books.offsets)
        self._confirm_seconds = confirm_seconds
        self._pending_acks: PendingAcks[tuple[int, Deliver]] = PendingAcks()
        self._on_batch_handled = on_batch_handled
        self._previous_run = previous_run
        self._plans = RunPlans(self._epoch)
        self._runs = RunDelivery(books.outcomes, peers.session, peers.datagrams, self)
        self._queue: deque[tuple[int, Piece]] = deque()
        self._working = False
        self._stopped = False
        self._faults = RateLimitedFaultLog(log)

    def stop(self) -> None:
        """Stops handling records. The next life handles the rest."""
        self._stopped = True
        self._queue.clear()

    def take(self, batch: Batch) -> None:
        if self._stopped:
            return
        for offset, record in batch:
            self._queue.append((offset, record))
        self._queue.append(END_OF_BATCH)
        if not self._working:
            self._working = True
            self._work()

    def expire(self) -> None:
        """Drops answers that nobody waits for any more. Called now and then."""
        for released in list(self._pending_acks.overdue(self._loop.time())):
            self._deliver_all(*_select_groups(released))
        self._send_all()

    def _work(self) -> None:
        self._handle_some()
        self._send_all()
        self._working = bool(self._queue)
        if self._working:
            self._loop.call_soon(self._work)

    def _handle_some(self) -> None:
        until = self._loop.time() + SLICE_SECONDS
        while self._queue:
            offset, piece = self._queue.popleft()
            if offset < 0:
                self._on_batch_handled()
            elif piece is None:
                self._offsets.done(offset + 1)
            elif isinstance(piece, EgressRecord):
                self._queue.appendleft((offset, None))
                self._queue.extendleft(reversed([(offset, part) for part in self._pieces(offset, piece)]))
            else:
                self._guarded(offset, piece)
            if self._loop.time() > until:
                return

    def _pieces(self, offset: int, record: EgressRecord) -> Iterable[DeliveryRun | Entry]:
        """Yields what is new of a record. If an earlier life may have handled it, each delivery is looked up."""
        new = self._offsets.begin(record)
        return new if self._previous_run.may_know(offset) else self._plans.pieces(new)

    def _guarded(self, offset: int, piece: DeliveryRun | Entry) -> None:
        try:
            if isinstance(piece, DeliveryRun):
                self._offsets.open(offset, piece.deliveries)
                self._runs.deliver(offset, piece)
            else:
                self._handle(offset, piece)
        except Exception:
            # A fault of ours costs what it happened with, and must not cost what the tracker holds back for it.
            self._faults.log_exception(f"while handling egress offset {offset}")
            if isinstance(piece, DeliveryRun):
                self._offsets.settle(offset, piece.deliveries - self._runs.deliveries_done)
            else:
                self._for_each_delivery(offset, piece, self._offsets.settle)

    def _handle(self, offset: int, entry: Entry) -> None:
        self._for_each_delivery(offset, entry, self._offsets.open)  # what is held too: a killed edge must find it again
        for at, delivery in self._ready(offset, entry):
            self._deliver_all(at, delivery)

    def _ready(self, offset: int, entry: Entry) -> Iterable[tuple[int, Deliver]]:
        """Returns what is to be delivered now, because of this entry."""
        match entry:
            case MigrationStep():
                self._migration.take(offset, entry.position.partition, entry)
            case InterestApplied():
                waiting = self._barrier.applied(entry.ticket, entry.partition)
                return [waiting] if waiting is not None else []
            case EdgeRestarted():
                self._peers.drop_requests(entry)
            case SourceRefused():
                self._peers.slow_down(entry)
            case RecordConfirmed():
                released = self._pending_acks.confirmed(entry.ticket, entry.edge, entry.part, failed=entry.failed)
                return [_select_groups(released)] if released is not None else []
            case Deliver(required_confirmations=required) if required:
                until = self._loop.time() + self._confirm_seconds()
                return map(_select_groups, self._pending_acks.hold(entry.ticket, (offset, entry), required, until))
            case Deliver(ticket=ticket) if ticket:
                return self._barrier.hold(ticket, (offset, entry))
            case Deliver():
                return [(offset, entry)]
        return []

    def _deliver_all(self, offset: int, record: Deliver) -> None:
        awaited = self._awaited(offset, record)
        for group in record.groups:
            self._deliver(offset, record, group, awaited)

    def _awaited(self, offset: int, record: Deliver) -> DeliveryCountdown | None:
        """Counts the deliveries of a record for whoever waits for it.

        The confirmation is as much a part of the record as its outcomes: it is open until it is durable.

        Sessions confirm: a node that is away has none, and is not waited for.
        """
        confirm = record.confirm
        if confirm is None:
            return None

        def on_ended(failed: bool) -> None:
            self._log.confirm(confirm, record.position, failed, lambda: self._offsets.settle(offset))

        return DeliveryCountdown(sum(map(self._present, record.groups)), on_ended)

    def _present(self, group: Group) -> int:
        return len(group.sessions) + len(group.addresses) + sum(map(self._queues.is_here, group.owed))

    def _for_each_delivery(self, offset: int, entry: Entry, change: Callable[..., None]) -> None:
        if isinstance(entry, MigrationStep):
            change(offset, owed=True)
        if not isinstance(entry, Deliver):
            return
        for group in entry.groups:
            if count := len(group.sessions) + len(group.addresses):
                change(offset, count)
            if group.owed:
                change(offset, len(group.owed), owed=True)
        if entry.confirm is not None:
            change(offset)

    def _deliver(self, offset: int, record: Deliver, group: Group, awaited: DeliveryCountdown | None) -> None:
        delivery = to_delivery(offset, record, group, awaited)
        if group.sessions:
            self._to_sessions(record.epoch, group.sessions, delivery)
        for listener, address in group.addresses:
            self._to_datagram(listener, address, delivery)
        for node in group.owed:
            waited = awaited if self._queues.is_here(node) else None
            delivery = to_delivery(offset, record, group, waited, node)
            if not self._is_known(delivery, node):
                self._queues.add(delivery)

    def _to_sessions(self, epoch: int, numbers: tuple[int, ...], delivery: EgressDelivery) -> None:
        current = epoch == self._epoch
        for number in numbers:
            session = self._peers.session(number) if current else None
            if session is not None:
                session.deliver(delivery)
            else:
                self._gone(delivery, session_id(self._edge, epoch, number))

    def _gone(self, delivery: EgressDelivery, destination: str) -> None:
        if self._is_known(delivery, destination):
            return
        self._outcomes.end(delivery, Receiver(destination), Outcome.UNDELIVERABLE, "the session is gone")
        if delivery.kind is Kind.REQUEST and delivery.reply is not None:
            self._log.abandon(delivery.reply)

    def _to_datagram(self, listener: str, address: str, delivery: EgressDelivery) -> None:
        if self._is_known(delivery, datagram_receiver(listener, address).destination):
            return
        self._datagrams.add(listener, address, delivery)

    def _send_all(self) -> None:
        self._runs.flush()
        self._datagrams.send_all()

    # -- frames that a run could not deliver -------------------------------------------------------------------

    def to_address(self, offset: int, record: EgressRecord, row: int, listener: str, peer: str) -> None:
        delivery = record.delivery(row)
        [group] = [group for group in delivery.groups if (listener, peer) in group.addresses]
        self._to_datagram(listener, peer, to_delivery(offset, delivery, group, None))

    def to_session(self, offset: int, record: EgressRecord, row: int, number: int) -> None:
        delivery = record.delivery(row)
        [group] = [group for group in delivery.groups if number in group.sessions]
        self._to_sessions(delivery.epoch, (number,), to_delivery(offset, delivery, group, None))

    def send_waiting(self, listener: str) -> None:
        self._datagrams.send(listener)

    def _is_known(self, delivery: EgressDelivery, destination: str) -> bool:
        """An earlier life has written what became of it. Whoever waits for it, and was not told by that life, is told
        that it failed: what is not known to be good is not promised."""
        is_owed = bool(delivery.owed_to)
        if not self._previous_run.knows(delivery.offset, delivery, destination, owed=is_owed):
            return False
        self._offsets.settle(delivery.offset, owed=is_owed)
        if delivery.awaited is not None:
            delivery.awaited.ended(Outcome.EXPIRED)
        return True


def _select_groups(released: Released[tuple[int, Deliver]]) -> tuple[int, Deliver]:
    (offset, answer), failed = released
    return offset, replace(answer, kind=Kind.ERROR, groups=answer.groups_on_failure) if failed else answer

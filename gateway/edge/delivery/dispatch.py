"""Carries out what the router wrote for this edge: from the egress partition, in order, to sessions and datagrams.

Records come in batches from the reader's thread and are handled in slices, so that an event for ten thousand sessions
delays nobody's keepalive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Protocol

from gateway.core.event import Kind
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import datagram_name, session_id
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.sending import KNOWN_ADDRESSES, Datagram, OfT
from gateway.edge.delivery.delivery_acks import DeliveryCountdown, PendingAcks, Released
from gateway.edge.delivery.egress_delivery import EgressDelivery, OutcomeRecorder, Receiver
from gateway.edge.delivery.migration import QueueMigration
from gateway.edge.delivery.offset_tracker import OffsetTracker
from gateway.edge.delivery.outcomes import KnownOutcomes
from gateway.edge.delivery.partition_barrier import PartitionBarrier
from gateway.edge.delivery.reader import Batch
from gateway.edge.delivery.redelivery import RedeliveryQueues
from gateway.edge.delivery.runs import DeliveryRun, RunDatagrams, RunDelivery, RunPlans, RunSession
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
)
from gateway.records.egress_codec import EgressRecord
from gateway.records.raw_log.frames import ReplyAddress

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.005
END_OF_BATCH = (-1, None)
"""Stands behind the records of a batch. (An offset with nothing stands behind the pieces of a record.)"""
Piece = EgressRecord | DeliveryRun | Entry | None
"""A record that was not looked at yet, a part of one, or the end of one."""


class OpenSession(RunSession, Protocol):
    def deliver(self, delivery: Delivery) -> None: ...


class Datagrams(RunDatagrams, Protocol):
    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        """Sends the datagrams in their order. `on_sent` hears of each: "" when the system has taken it, or what was in
        the way."""


class PreviousRun:
    """Knows what an earlier life of this edge has done.

    Every delivery to a session was handled below `sessions_to`. For all other records before `to`, `outcomes` says what
    is known.
    """

    def __init__(self, to: int = 0, sessions_to: int = 0, outcomes: KnownOutcomes | None = None) -> None:
        self._to = to
        self._sessions_to = sessions_to
        self._outcomes = outcomes or KnownOutcomes()

    def may_know(self, offset: int) -> bool:
        """Returns True if the earlier life may have handled the record."""
        return offset < self._to

    def knows(self, offset: int, delivery: Delivery, destination: str, *, owed: bool) -> bool:
        if offset >= self._to:
            self._outcomes.clear()  # offsets only grow: nothing will be asked for any more
            return False
        if not owed and offset < self._sessions_to:
            return True
        return self._outcomes.take(delivery.event_id, delivery.part, destination)


@dataclass(frozen=True, slots=True)
class DeliveryBooks:
    """Groups the records of what this edge has to deliver and of what became of it."""

    ledger: OffsetTracker
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
    """

    session: Callable[[int], OpenSession | None]
    datagrams: Mapping[str, Datagrams]
    drop_requests: Callable[[EdgeRestarted], None]


class Dispatch:
    """Hands the entries of egress records to sessions and datagrams.

    Args:
        books: all records are noted there.
        edge_log: hears what this edge itself has to say to requesters and other edges.
        patience: how many seconds an answer waits for the confirmations of other edges.
        taken: is called for each batch when it has been handled.
    """

    def __init__(
        self,
        books: DeliveryBooks,
        edge_log: EdgeLog,
        peers: Peers,
        past: PreviousRun,
        *,
        patience: Callable[[], float],
        taken: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._edge, self._epoch = edge_log.life
        self._ledger, self._ends = books.ledger, books.outcomes
        self._owed, self._migration = books.queues, books.migration
        self._barrier: PartitionBarrier[tuple[int, Deliver]] = PartitionBarrier(edge_log.partitions)
        self._log = edge_log
        self._peers = peers
        self._session, self._datagrams = peers.session, peers.datagrams
        self._patience = patience
        self._answers: PendingAcks[tuple[int, Deliver]] = PendingAcks()
        self._taken = taken
        self._past = past
        self._plans = RunPlans(self._epoch)
        self._runs = RunDelivery(books.outcomes, peers.session, peers.datagrams, self)
        self._queue: deque[tuple[int, Piece]] = deque()
        self._leaving: dict[str, list[Datagram[EgressDelivery]]] = {}
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
        for released in list(self._answers.overdue(self._loop.time())):
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
                self._taken()
            elif piece is None:
                self._ledger.done(offset + 1)
            elif isinstance(piece, EgressRecord):
                self._queue.appendleft((offset, None))
                self._queue.extendleft(reversed([(offset, part) for part in self._pieces(offset, piece)]))
            else:
                self._guarded(offset, piece)
            if self._loop.time() > until:
                return

    def _pieces(self, offset: int, record: EgressRecord) -> Iterable[DeliveryRun | Entry]:
        """Yields what is new of a record. If an earlier life may have handled it, each delivery is looked up."""
        new = self._ledger.begin(record)
        return new if self._past.may_know(offset) else self._plans.pieces(new)

    def _guarded(self, offset: int, piece: DeliveryRun | Entry) -> None:
        try:
            if isinstance(piece, DeliveryRun):
                self._ledger.open(offset, piece.deliveries)
                self._runs.deliver(offset, piece)
            else:
                self._handle(offset, piece)
        except Exception:
            # A fault of ours costs what it happened with, and must not cost what the ledger holds back for it.
            self._faults.log_exception(f"while handling egress offset {offset}")
            if isinstance(piece, DeliveryRun):
                self._ledger.settle(offset, piece.deliveries - self._runs.over)
            else:
                self._each(offset, piece, self._ledger.settle)

    def _handle(self, offset: int, entry: Entry) -> None:
        self._each(offset, entry, self._ledger.open)  # what is held too: a killed edge must find it again
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
            case RecordConfirmed():
                released = self._answers.told(entry.ticket, entry.edge, entry.part, failed=entry.failed)
                return [_select_groups(released)] if released is not None else []
            case Deliver(required_confirmations=required) if required:
                until = self._loop.time() + self._patience()
                return map(_select_groups, self._answers.hold(entry.ticket, (offset, entry), required, until))
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

        def over(failed: bool) -> None:
            self._log.confirm(confirm, record.position, failed, lambda: self._ledger.settle(offset))

        return DeliveryCountdown(sum(map(self._present, record.groups)), over)

    def _present(self, group: Group) -> int:
        return len(group.sessions) + len(group.addresses) + sum(map(self._owed.is_here, group.owed))

    def _each(self, offset: int, entry: Entry, change: Callable[..., None]) -> None:
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
        delivery = _handed(offset, record, group, awaited)
        if group.sessions:
            self._to_sessions(record.epoch, group.sessions, delivery)
        for listener, address in group.addresses:
            self._to_datagram(listener, address, delivery)
        for node in group.owed:
            waited = awaited if self._owed.is_here(node) else None
            self._to_node(node, _handed(offset, record, group, waited, node))

    def _to_sessions(self, epoch: int, numbers: tuple[int, ...], delivery: EgressDelivery) -> None:
        current = epoch == self._epoch
        for number in numbers:
            session = self._session(number) if current else None
            if session is not None:
                session.deliver(delivery)
            else:
                self._gone(delivery, session_id(self._edge, epoch, number))

    def _gone(self, delivery: EgressDelivery, destination: str) -> None:
        if self._is_known(delivery, destination):
            return
        self._ends.end(delivery, Receiver(destination), Outcome.UNDELIVERABLE, "the session is gone")
        if delivery.kind is Kind.REQUEST and delivery.reply is not None:
            self._log.abandon(delivery.reply)

    def _to_datagram(self, listener: str, address: str, delivery: EgressDelivery) -> None:
        if self._is_known(delivery, _receiver(listener, address).destination):
            return
        leaving = self._leaving.setdefault(listener, [])
        leaving.append((delivery.frame, address, delivery))
        if len(leaving) >= AT_ONCE:
            self._send(listener)

    def _send_all(self) -> None:
        self._runs.flush()
        for listener in list(self._leaving):
            self._send(listener)

    # -- frames that a run could not deliver -------------------------------------------------------------------

    def to_address(self, offset: int, record: EgressRecord, row: int, listener: str, peer: str) -> None:
        delivery = record.delivery(row)
        [group] = [group for group in delivery.groups if (listener, peer) in group.addresses]
        self._to_datagram(listener, peer, _handed(offset, delivery, group, None))

    def to_session(self, offset: int, record: EgressRecord, row: int, number: int) -> None:
        delivery = record.delivery(row)
        [group] = [group for group in delivery.groups if number in group.sessions]
        self._to_sessions(delivery.epoch, (number,), _handed(offset, delivery, group, None))

    def send_waiting(self, listener: str) -> None:
        if listener in self._leaving:
            self._send(listener)

    def _send(self, listener: str) -> None:
        """Sends what waits with one call if the system can: that costs less than one by one."""
        leaving, on_sent = self._leaving.pop(listener), partial(self._sent, listener)
        socket = self._datagrams.get(listener)
        try:
            if socket is None:
                on_sent(leaving, "the listener is gone")
            else:
                socket.send(leaving, on_sent)
        except Exception:
            self._faults.log_exception(f"while sending {len(leaving)} datagrams of {listener}")
            for _, _, delivery in leaving:
                self._ledger.settle(delivery.offset)

    def _sent(self, listener: str, datagrams: Sequence[Datagram[EgressDelivery]], detail: str) -> None:
        outcome = Outcome.UNDELIVERABLE if detail else Outcome.WRITTEN
        for _, address, delivery in datagrams:
            self._ends.end(delivery, _receiver(listener, address), outcome, detail)

    def _to_node(self, node: str, delivery: EgressDelivery) -> None:
        if not self._is_known(delivery, node):
            self._owed.add(delivery)

    def _is_known(self, delivery: EgressDelivery, destination: str) -> bool:
        """An earlier life has written what became of it. Whoever waits for it, and was not told by that life, is told
        that it failed: what is not known to be good is not promised."""
        owed = bool(delivery.owed_to)
        if not self._past.knows(delivery.offset, delivery, destination, owed=owed):
            return False
        self._ledger.settle(delivery.offset, owed=owed)
        if delivery.awaited is not None:
            delivery.awaited.ended(Outcome.EXPIRED)
        return True


@lru_cache(KNOWN_ADDRESSES)
def _receiver(listener: str, address: str) -> Receiver:
    return Receiver(datagram_name(listener, address), listener)


def _select_groups(released: Released[tuple[int, Deliver]]) -> tuple[int, Deliver]:
    (offset, answer), failed = released
    return offset, replace(answer, kind=Kind.ERROR, groups=answer.groups_on_failure) if failed else answer


def _handed(
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

"""Runs: many frames of one raw record that are plain deliveries. They are handled together, at the cost of a record.

    record ──pieces──► run ──────► datagrams: one system call for many frames, straight from the record's buffer
                   │        └────► sessions:  one call for each session, with all of its frames
                   └─► entry ────► by itself (`dispatch`), as is every frame that a run could not deliver

A delivery is plain if it is an event that nobody owes, answers or confirms, and that needs no id of a connection.

Invariants
1. A receiver gets its frames in the order of the record, whether they leave in a run or by themselves.
2. Each delivery of a run ends once: in a RunOutcome, or by itself.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gateway.core.event import Kind
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import datagram_name
from gateway.edge.datagrams.sending import DatagramRun
from gateway.edge.delivery.egress_delivery import OutcomeRecorder
from gateway.protocols.actions import Outcome
from gateway.records.deliveries import RunOutcome, pack_receivers
from gateway.records.egress import Entry, Group
from gateway.records.egress_codec import OWN_ENTRY, EgressRecord, Route
from gateway.records.raw_log.frames import FrameSource

_faults = RateLimitedFaultLog(logging.getLogger(__name__))

SHORTEST_RUN = 6
"""Fewer deliveries cost less by themselves; so does one delivery to each of many datagram peers."""
SESSION_DELIVERIES = 10_000
"""About as many deliveries to sessions are one run at most: then others have their turn. What costs is a session that
is written to, and hardly how many frames it gets."""
REMEMBERED_RECEIVERS = 65_536
"""The most receivers of remembered routes, some megabytes. Beyond this it starts over."""

Rows = NDArray[np.intp]


class RunTarget(NamedTuple):
    """A datagram peer, and the protocol of its listener."""

    listener: str
    peer: str
    protocol: str


@dataclass(frozen=True, slots=True, eq=False)
class RunPlan:
    """Says what a route means for this edge: whether its deliveries may be part of a run, and who gets them."""

    is_plain: bool
    origin: str
    targets: tuple[RunTarget, ...]
    sessions: tuple[int, ...]

    @property
    def receivers(self) -> int:
        return len(self.targets) + len(self.sessions)


@dataclass(slots=True)
class DeliveryRun:
    """Rows of a record that are plain deliveries: those from `begin` to `end`. `plans` are those of its routes."""

    record: EgressRecord
    plans: Sequence[RunPlan]
    begin: int
    end: int

    @property
    def routes(self) -> NDArray[np.uint16]:
        return self.record.route[self.begin : self.end]

    @property
    def deliveries(self) -> int:
        each = [plan.receivers for plan in self.plans]
        if min(each) == max(each):
            return each[0] * (self.end - self.begin)
        return int(np.array(each)[self.routes].sum())


# -- which rows make runs ----------------------------------------------------------------------------------------------


class RunPlans(dict[Route, RunPlan]):
    """Finds what a route means, once for each route. `epoch` is that of this edge."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._receivers = 0

    def __missing__(self, route: Route) -> RunPlan:
        plan = self._plan(route)
        self._receivers += plan.receivers + 1
        if self._receivers > REMEMBERED_RECEIVERS:
            self.clear()
            self._receivers = plan.receivers + 1
        self[route] = plan
        return plan

    def _plan(self, route: Route) -> RunPlan:
        targets = tuple([RunTarget(*address, group.protocol) for group in route.groups for address in group.addresses])
        sessions = tuple([number for group in route.groups for number in group.sessions])
        is_once = len(set(targets)) == len(targets) and len(set(sessions)) == len(sessions)
        is_ours = not sessions or route.epoch == self._epoch
        is_plain = route.kind is Kind.EVENT and is_once and is_ours and all(map(_is_plain, route.groups))
        return RunPlan(is_plain, route.origin, targets, sessions)

    def pieces(self, record: EgressRecord) -> Iterator[DeliveryRun | Entry]:
        """Yields what the record holds, in its order."""
        plans = [self[route] for route in record.routes]
        fan = max([len(plan.sessions) for plan in plans], default=0)
        shortest = SHORTEST_RUN + sum([len(plan.targets) for plan in plans])
        for begin, end, is_plain in _stretches(record, plans):
            if not is_plain or (end - begin) * max(fan, 1) < shortest:
                yield from record.entries(begin, end)
                continue
            step = max(SESSION_DELIVERIES // fan, 1) if fan else end
            for at in range(begin, end, step):
                yield DeliveryRun(record, plans, at, min(at + step, end))


def _is_plain(group: Group) -> bool:
    return not (group.owed or group.reply or group.request or (group.sessions and group.stamps))


def _stretches(record: EgressRecord, plans: Sequence[RunPlan]) -> Iterator[tuple[int, int, bool]]:
    """Yields where stretches of rows begin and end, of which all are plain or none is."""
    if not len(record):
        return
    if not record.own and all(plan.is_plain for plan in plans):
        yield 0, len(record), True
        return
    are_plain = np.zeros(OWN_ENTRY + 1, bool)
    are_plain[: len(plans)] = [plan.is_plain for plan in plans]
    rows = are_plain[record.route]
    for begin, end in _alike(rows):
        yield begin, end, bool(rows[begin])


def _alike(*columns: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yields where stretches begin and end in which no column changes. All columns are as long as each other."""
    changes = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        changes |= column[1:] != column[:-1]
    begin = 0
    for end in [*(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]:
        yield begin, end
        begin = end


# -- delivering them ---------------------------------------------------------------------------------------------------


class RunSession(Hashable, Protocol):
    """A connection, as far as runs need it."""

    @property
    def source(self) -> FrameSource: ...

    def write_run(self, frames: Sequence[bytes], size: int) -> bool:
        """Takes frames that need nothing of the connection. False if it takes none of them in this way."""

    def flush(self) -> None:
        """Writes what it has taken."""


class RunDatagrams(Protocol):
    def send_run(self, run: DatagramRun) -> int:
        """Returns how many of them, from the first, have been sent."""


class SingleDelivery(Protocol):
    """Delivers single frames that a run could not deliver. Each is a row of its record."""

    def to_address(self, offset: int, record: EgressRecord, row: int, listener: str, peer: str) -> None: ...
    def to_session(self, offset: int, record: EgressRecord, row: int, number: int) -> None: ...
    def send_waiting(self, listener: str) -> None:
        """Sends what has been delivered to this listener's peers so far."""


class RunDelivery:
    """Delivers runs of plain deliveries. `session(number)` is a session of this epoch; `datagrams` are by listener."""

    def __init__(
        self,
        outcomes: OutcomeRecorder,
        session: Callable[[int], RunSession | None],
        datagrams: Mapping[str, RunDatagrams],
        single: SingleDelivery,
    ) -> None:
        self._outcomes = outcomes
        self._session = session
        self._datagrams = datagrams
        self._single = single
        self._packed: tuple[list[FrameSource], bytes] = [], b""
        self._unflushed: dict[RunSession, None] = {}
        self.deliveries_done = 0
        """The number of deliveries that are done, of the run that was handled last."""

    def deliver(self, offset: int, run: DeliveryRun) -> None:
        """Delivers a run of the egress record at `offset`. All of its deliveries are open in the offset tracker."""
        self.deliveries_done = 0
        if any(plan.targets for plan in run.plans):
            self._to_peers(offset, run)
        if any(plan.sessions for plan in run.plans):
            self._to_sessions(offset, run)

    def flush(self) -> None:
        """Writes what sessions have taken: once for each, with all of the runs since the last time."""
        unflushed, self._unflushed = self._unflushed, {}
        for session in unflushed:
            try:
                session.flush()
            except Exception:  # one session's fault is not the others'
                _faults.log_exception("while writing to a session")

    def _to_peers(self, offset: int, run: DeliveryRun) -> None:
        rows, to, targets = _rows_by_target(run)
        listeners = list(dict.fromkeys([target.listener for target in targets]))
        for listener in listeners:
            if len(listeners) == 1:
                self._to_listener(offset, run, rows, to, targets)
            else:
                are_its = np.array([target.listener == listener for target in targets])[to]
                self._to_listener(offset, run, rows[are_its], to[are_its], targets)

    def _to_listener(self, offset: int, run: DeliveryRun, rows: Rows, to: Rows, targets: Sequence[RunTarget]) -> None:
        if not len(rows):
            return
        record, listener = run.record, targets[to[0]].listener
        socket = self._datagrams.get(listener)
        self._single.send_waiting(listener)
        sent = 0
        if socket is not None:
            peers = [target.peer for target in targets]
            sent = socket.send_run(DatagramRun(record.data, *record.frame_places(rows), peers, to))
        if sent:
            self._sent(offset, run, rows[:sent], to[:sent], targets)
        for row, number in zip(rows[sent:].tolist(), to[sent:].tolist(), strict=True):
            self._single.to_address(offset, record, row, listener, targets[number].peer)
            self.deliveries_done += 1

    def _sent(self, offset: int, run: DeliveryRun, rows: Rows, to: Rows, targets: Sequence[RunTarget]) -> None:
        at = time.time_ns() // 1000
        parts, indices = run.record.part[rows], run.record.index[rows]
        for begin, end in _alike(to, parts):
            target = targets[to[begin]]
            outcome = _written(run.record, indices[begin:end], int(parts[begin]), at)
            self._end(offset, outcome._replace(destination=datagram_name(target.listener, target.peer)), end - begin)
        self._observe(run, targets[to[0]].listener, targets[to[0]].protocol, rows, at)

    def _to_sessions(self, offset: int, run: DeliveryRun) -> None:
        for rows, numbers in _rows_by_session(run):
            frames = [run.record.frame(row) for row in rows]
            size = sum(map(len, frames))
            written: defaultdict[tuple[str, str], list[FrameSource]] = defaultdict(list)
            for number in numbers:
                session = self._session(number)
                if session is not None and session.write_run(frames, size):
                    self._unflushed[session] = None
                    source = session.source
                    written[source.listener, source.protocol].append(source)
                    continue
                for row in rows:
                    self._single.to_session(offset, run.record, row, number)
                    self.deliveries_done += 1
            for listener, sources in written.items():
                self._written_to(offset, run, np.array(rows), *listener, sources)

    def _written_to(
        self, offset: int, run: DeliveryRun, rows: Rows, listener: str, protocol: str, sources: list[FrameSource]
    ) -> None:
        at, receivers = time.time_ns() // 1000, self._receivers(sources)
        parts, indices = run.record.part[rows], run.record.index[rows]
        for begin, end in _alike(parts):
            outcome = _written(run.record, indices[begin:end], int(parts[begin]), at)
            self._end(offset, outcome._replace(receivers=receivers), (end - begin) * len(sources))
        self._observe(run, listener, protocol, rows, at, len(sources))

    def _receivers(self, sources: list[FrameSource]) -> bytes:
        """Events of one subject go to the same sessions one after the other: who those are is packed once."""
        packed_sources, packed = self._packed
        if sources != packed_sources:
            packed = pack_receivers([(source.session_id, source.node) for source in sources])
            self._packed = sources, packed
        return packed

    def _end(self, offset: int, outcome: RunOutcome, deliveries: int) -> None:
        self._outcomes.run_ended(outcome, offset, deliveries)
        self.deliveries_done += deliveries

    def _observe(self, run: DeliveryRun, listener: str, protocol: str, rows: Rows, at: int, receivers: int = 1) -> None:
        """Counts deliveries and how long they took, by the protocol that the events came in."""
        took = at - run.record.received_at[rows]
        origins = [plan.origin for plan in run.plans]
        for origin in set(origins):
            its = took
            if origins.count(origin) < len(origins):
                its = took[np.array([other == origin for other in origins])[run.record.route[rows]]]
            self._outcomes.observe_run(listener, protocol, origin, its, receivers)


def _written(record: EgressRecord, indices: NDArray[np.uint16], part: int, at: int) -> RunOutcome:
    return RunOutcome(record.partition, record.offset, indices.tobytes(), "", Outcome.WRITTEN.value, "", at, part)


def _rows_by_target(run: DeliveryRun) -> tuple[Rows, Rows, list[RunTarget]]:
    """Returns each row and the number of its target, once for each of its targets; and the targets by number. Rows of
    one target stand together, in their order.
    """
    numbers: dict[RunTarget, int] = {}
    all_numbers = [numbers.setdefault(target, len(numbers)) for plan in run.plans for target in plan.targets]
    counts, routes, rows = [len(plan.targets) for plan in run.plans], run.routes, np.arange(run.begin, run.end)
    if min(counts) == max(counts) == 1:
        to = np.array(all_numbers)[routes]
    else:
        count_of_row = np.array(counts)[routes]
        firsts = (np.cumsum(counts) - counts)[routes]
        rows = np.repeat(rows, count_of_row)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(count_of_row) - count_of_row, count_of_row)
        to = np.array(all_numbers)[np.repeat(firsts, count_of_row) + within]
    if len(numbers) > 1:
        order = np.argsort(to, kind="stable")
        rows, to = rows[order], to[order]
    return rows, to, list(numbers)


def _rows_by_session(run: DeliveryRun) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yields rows, and the numbers of the sessions that get just these."""
    first = run.plans[int(run.routes[0])].sessions
    if all(plan.sessions == first for plan in run.plans):
        yield range(run.begin, run.end), first
        return
    rows_of: defaultdict[int, list[int]] = defaultdict(list)
    for row, route in enumerate(run.routes.tolist(), run.begin):
        for number in run.plans[route].sessions:
            rows_of[number].append(row)
    together: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, rows in rows_of.items():
        together[tuple(rows)].append(number)
    yield from together.items()

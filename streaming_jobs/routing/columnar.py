"""The fast pass: routes the common frames of a raw record in columns, and leaves all others to the plain path.

    record ─► CommonReader of the protocol ─► flows ─► admit (dedup) ─► one run of egress rows for each edge, event rows

Frames of one *flow* make events that differ in nothing but id, times, message id and body. What becomes of them is
therefore the same, as long as settings, keys and interests are. The first frame of a flow goes through the functions
that the plain path uses too (`to_event`, permissions, `Fanout`, `from_event`, `EventWriter`); what they say is kept
with the flow and repeated for all others.

Invariants
1. Whatever the plain path would do beyond recording the event and passing its frame on verbatim makes a flow `plain`:
   a refusal, a lease, a control subject, a queue group, a receiver that needs another form, a trail of links.
2. Interests change only by frames that take the plain path. So what is known of receivers holds until the next of them;
   `InterestTable.version` says whether it still does, and a lease's end bounds it in time.
3. Frames are taken in the order of the record: `route` stops where the next frame needs the plain path.
4. New settings or keys make a new Env, and with it everything here is forgotten.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.content import JSON
from gateway.egress import Group
from gateway.egress_codec import Route
from gateway.event import SECOND_US, Event, Kind
from gateway.event_records import EventTemplate
from gateway.faults import Faults
from gateway.protocols.spec import CommonFrames, CommonReader, Env, ProtocolSpec
from gateway.raw_log.container import RecordColumns
from gateway.raw_log.frames import LINK_FACT, Source
from gateway.reasons import Rejected
from gateway.subjects import is_control
from streaming_jobs.routing.destinations import Destinations, Encodings, Fanout, Receivers
from streaming_jobs.routing.mesh_state import MeshState, Spoken
from streaming_jobs.routing.record_outputs import RecordOutputs
from streaming_jobs.routing.tally import EVENT
from streaming_jobs.routing.work import RECEIVER_BYTES

log = logging.getLogger(__name__)
FLOWS_REMEMBERED = 16_384
"""At some 3 KB each. Beyond so many all go, and are asked for again by their next frames."""
FEWEST_FRAMES = 3
"""Columns cost some 40 µs a record before the first frame, as much as the plain path of two frames."""
FEWEST_IN_COLUMNS = 16
"""A shorter run is written to egress frame by frame, which then costs less."""
NONCE_BYTES = 16
FRAME_BYTES = 65_536
"""No datagram is longer, whatever else its entry holds."""

Admit = Callable[[Sequence[bytes], Sequence[int]], list[bool]]
"""(repeat keys, seconds of receipt) of frames in their order → which of them are no repeats."""


@dataclass(slots=True, eq=False)
class Flow:
    """What is known of all frames of a flow.

    Args:
        event: of the frame by which the flow was met.
        template: of its event records; None where the flow takes the plain path, whoever receives it.
        deliveries: an edge and a route each; None where they take the plain path for the receivers' sake.
        receivers: how many a frame has, at all edges.
        version: of the interest table, when receivers were asked for; the answer holds from `since` until `until`.
    """

    event: Event | None
    template: EventTemplate | None = None
    deliveries: tuple[tuple[str, Route], ...] | None = ()
    receivers: int = 0
    version: int = -1
    since: int = 0
    until: int = 0

    def knows_receivers(self, version: int, first: int, last: int) -> bool:
        return self.version == version and self.since <= first and last < self.until

    @property
    def is_plain(self) -> bool:
        return self.template is None or self.deliveries is None


_PLAIN = Flow(None)


@dataclass(slots=True)
class _SourceFlows:
    """Keeps its source alive, by whose identity it is found."""

    source: Source
    flows: dict[bytes, Flow] = field(default_factory=dict)


class ColumnarPass:
    """Finds the common frames of records. One for each worker."""

    def __init__(self, state: MeshState, fanout: Fanout) -> None:
        self.state = state
        self._fanout = fanout
        self._faults = Faults(log)
        self._env: Env | None = None
        self._forget()

    def _forget(self) -> None:
        if self._env is not self.state.env:
            self._env = self.state.env
            self._readers: dict[str, CommonReader] = {}
        self._flows: dict[int, _SourceFlows] = {}
        self._routes: dict[tuple[str, str], tuple[Destinations, tuple[tuple[str, Route], ...]]] = {}
        self._count = 0

    def read(self, record: RecordColumns, partition: int, offset: int) -> CommonRecord | None:
        """Returns the common frames of a record; None where every frame takes the plain path."""
        if self.state.traces is not None:
            return None
        try:
            return self._read(record, partition, offset)
        except Exception:  # no frame is refused for what is wrong here: the plain path judges each alone
            self._faults.tell("in the fast pass")
            return None

    def _read(self, record: RecordColumns, partition: int, offset: int) -> CommonRecord | None:
        if self._env is not self.state.env or self._count > FLOWS_REMEMBERED:
            self._forget()
        spec = self._protocol_of(record)
        if spec is None or (reader := self._reader(spec)) is None:
            return None
        rows = _rows_of(record, spec.name)
        if len(rows) < FEWEST_FRAMES:
            return None
        listeners = {source.listener for source in record.sources}
        options = {listener: self.state.spoken(listener, spec.name).options for listener in listeners}
        common = reader.read(record, rows, options)
        if common is None:
            return None
        return CommonRecord(self, record, spec.name, partition, offset, common, self._flows_of(record, common))

    def _protocol_of(self, record: RecordColumns) -> ProtocolSpec[Any] | None:
        """Returns the protocol of the first frame that is of a protocol with columns: records mix few protocols."""
        for source in record.sources:
            spec = self.state.protocols.get(source.protocol)
            if spec is not None and spec.reads_common is not None:
                return spec
        return None

    def _reader(self, spec: ProtocolSpec[Any]) -> CommonReader | None:
        reader = self._readers.get(spec.name)
        if reader is None and spec.reads_common is not None:
            reader = self._readers[spec.name] = spec.reads_common(self.state.env, os.urandom(NONCE_BYTES).hex())
        return reader

    # -- flows -------------------------------------------------------------------------------------------------

    def _flows_of(self, record: RecordColumns, common: CommonFrames) -> list[Flow]:
        by_source = [self._of_source(source) for source in record.sources]
        sources = record.source[common.rows].tolist()
        flows = [by_source[source].get(flow, _PLAIN) for source, flow in zip(sources, common.flows, strict=True)]
        if _PLAIN in flows:
            for at, flow in enumerate(flows):
                if flow is _PLAIN:
                    flows[at] = self._learn(record, int(common.rows[at]), by_source[sources[at]], common.flows[at])
        return flows

    def _of_source(self, source: Source) -> dict[bytes, Flow]:
        known = self._flows.get(id(source))
        if known is None:
            known = self._flows[id(source)] = _SourceFlows(source)
            self._count += 1
        return known.flows

    def _learn(self, record: RecordColumns, row: int, flows: dict[bytes, Flow], name: bytes) -> Flow:
        """Asks the plain path's functions about a frame of a flow that was not met before."""
        flow = flows.get(name)
        if flow is None:
            raw = record.frame(row)
            spoken = self.state.spoken(raw.source.listener, raw.source.protocol)
            try:
                event = spoken.protocol.to_event(raw, "", spoken.options, self.state.env)
            except Rejected:
                flow = Flow(None)
            else:
                flow = Flow(event, self._template(event) if self._is_common(event, spoken) else None)
            flows[name] = flow
            self._count += 1
        return flow

    def _template(self, event: Event) -> EventTemplate:
        template = self.state.topics.events.template(event)
        return template.of_checked_bodies() if event.content_type == JSON else template

    def _is_common(self, event: Event, spoken: Spoken) -> bool:
        return (
            event.kind is Kind.EVENT
            and not event.headers
            and not is_control(event.subject)
            and spoken.asked_lease(event) is None
            and not spoken.awaits_confirmation(event)
            and self.state.permissions.may_publish(event.principal, event.listener, event.subject)
        )

    # -- receivers ---------------------------------------------------------------------------------------------

    def find_receivers(self, flow: Flow, first: int, last: int) -> None:
        """Brings the flow's deliveries up to date, for frames received between these times."""
        if flow.event is None or flow.template is None:
            return
        shared = self._fanout.find_shared(flow.event.subject, first)
        flow.version, flow.since, flow.until = self.state.table.version, shared.since, shared.until
        if shared.destinations is None or last >= shared.until:
            flow.deliveries, flow.until = None, flow.since  # asked for again by the next record
            return
        flow.deliveries = self._deliveries(flow.event, shared.destinations)
        flow.receivers = sum(group.receivers for _, route in flow.deliveries or () for group in route.groups)

    def _deliveries(self, event: Event, destinations: Destinations) -> tuple[tuple[str, Route], ...] | None:
        """None where a frame cannot simply be passed on, or makes more than one entry for an edge."""
        if len({edge for edge, _ in destinations}) < len(destinations):
            return None
        if not all(
            self._goes_verbatim(event, one) for encodings in destinations.values() for one in encodings.values()
        ):
            return None
        known = self._routes.get((event.subject, event.protocol))
        if known is None or known[0] is not destinations:
            if len(self._routes) >= FLOWS_REMEMBERED:
                self._routes.clear()
            known = self._routes[event.subject, event.protocol] = destinations, _routes(event, destinations)
        largest = self.state.config.kafka.message_bytes
        return known[1] if all(_most_bytes(route) <= largest for _, route in known[1]) else None

    def _goes_verbatim(self, event: Event, receivers: Receivers) -> bool:
        """True where `from_event` hands on the frame itself for every event of this flow."""
        target = receivers.target
        if target.protocol != event.protocol or target.facts.get(LINK_FACT):
            return False
        spoken = self.state.spoken(target.listener, target.protocol)
        try:
            encoded = spoken.protocol.from_event(event, target, spoken.options, self.state.env)
        except Rejected:
            return False
        return encoded.frame is event.raw and not encoded.stamps and not encoded.losses


def _rows_of(record: RecordColumns, protocol: str) -> NDArray[np.intp]:
    """Returns the indexes of the protocol's frames that answer nothing and stand in the log for the first time. Sources
    with facts are left out: each record makes them anew, so their flows could not be found again."""
    is_ours = [source.protocol == protocol and not source.facts for source in record.sources]
    if all(is_ours) and not record.replies and not record.agains:
        return np.arange(len(record))
    taken = np.array(is_ours)[record.source]
    taken[[at for at in (*record.replies, *record.agains) if at < len(record)]] = False
    return np.flatnonzero(taken)


def _routes(event: Event, destinations: Destinations) -> tuple[tuple[str, Route], ...]:
    return tuple(
        [
            (edge, Route(event.kind, event.subject, event.protocol, epoch, _groups(encodings)))
            for (edge, epoch), encodings in destinations.items()
        ]
    )


def _groups(encodings: Encodings) -> tuple[Group, ...]:
    return tuple(
        [Group(one.target.protocol, b"", (), one.sessions, one.addresses, owed=one.owed) for one in encodings.values()]
    )


def _most_bytes(route: Route) -> int:
    """Returns what an entry of the route takes at most, as the plain path counts it."""
    counted = sum(FRAME_BYTES + group.receivers * RECEIVER_BYTES for group in route.groups)
    return max(counted, FRAME_BYTES + len(route.packed))


class CommonRecord:
    """The common frames of one record on their way.

    The caller goes through the record from row to row: `route` takes common frames from a row on and says at which row
    it stopped; that row takes the plain path, and so on.
    """

    def __init__(
        self, columnar: ColumnarPass, record: RecordColumns, protocol: str, partition: int, offset: int,
        common: CommonFrames, flows: list[Flow],
    ) -> None:  # fmt: skip
        self._pass = columnar
        self._protocol = protocol
        self._record = record
        self._common = common
        self._flows = flows
        self._id_prefix = b"%d-%d-" % (partition, offset)
        self._rows: list[int] = common.rows.tolist()
        gaps = np.flatnonzero(np.diff(common.rows) != 1).tolist() if len(common) < len(record) else []
        self._ends = [*(place + 1 for place in gaps), len(common)]
        """Places at which common frames stop standing side by side."""
        self._first, self._last = record.received_between()

    @property
    def uncommon_rows(self) -> list[int]:
        """The rows of frames that the plain path must judge."""
        return sorted(set(range(len(self._record))) - set(self._rows))

    def event(self, row: int) -> Event | None:
        """Returns the event of a common frame at which `route` has stopped; None where the plain path must judge it."""
        place = bisect_left(self._rows, row)
        if place == len(self._rows) or self._rows[place] != row:
            return None
        example, common = self._flows[place].event, self._common
        if example is None:
            return None
        # By position: `replace` takes three times as long. The tests compare each field with the plain path's.
        return Event(
            (self._id_prefix + b"%d" % row).decode(),
            example.kind,
            example.subject,
            example.protocol,
            example.listener,
            example.edge,
            example.session,
            example.peer,
            example.node,
            int(common.received_at[place]),
            common.message_ids[place].decode(),
            example.correlation,
            example.content_type,
            common.bodies[place],
            example.headers,
            example.urgent,
            common.sent_at[place],
            example.auth,
            example.key_id,
            common.frames[place],
        )

    def plain_until(self, row: int) -> int:
        """Returns the row after this one at which the next common frame stands that may be routed in columns."""
        version, first, last = self._pass.state.table.version, self._first, self._last
        for place in range(bisect_left(self._rows, row + 1), len(self._rows)):
            flow = self._flows[place]
            if not (flow.is_plain and flow.knows_receivers(version, first, last)):
                return self._rows[place]
        return len(self._record)

    def route(self, row: int, admit: Admit, outputs: RecordOutputs) -> int:
        """Routes the common frames that stand side by side from this row on. Returns the row at which it stopped."""
        begin = bisect_left(self._rows, row)
        if begin == len(self._rows) or self._rows[begin] != row:
            return row
        end = self._end_of_run(begin)
        if end > begin:
            self._route_run(begin, end, admit, outputs)
        return row + end - begin

    def _end_of_run(self, begin: int) -> int:
        """Returns the place of the first frame that needs the plain path."""
        version, first, last = self._pass.state.table.version, self._first, self._last
        flows, checked = self._flows, None
        stop = self._ends[bisect_right(self._ends, begin)]
        for place in range(begin, stop):
            flow = flows[place]
            if flow is not checked:
                if not flow.knows_receivers(version, first, last):
                    self._pass.find_receivers(flow, first, last)
                if flow.is_plain:
                    return place
                checked = flow
        return stop

    def _route_run(self, begin: int, end: int, admit: Admit, outputs: RecordOutputs) -> None:
        common = self._common
        if begin or end < len(common):
            common = common.part(begin, end)
        flows = self._flows[begin:end]
        seconds = (common.received_at // SECOND_US).tolist()
        is_new = admit(common.repeat_keys, seconds)
        self._count(flows)
        if not all(is_new):
            self._pass.state.tally.repeated(self._protocol, is_new.count(False))
            flows = list(compress(flows, is_new))
            common = common.only(is_new)
        if flows:
            self._write_events(common, flows, outputs)
            self._write_egress(common, flows, outputs)

    def _count(self, flows: Sequence[Flow]) -> None:
        """Each frame counts, a repeat too."""
        tally = self._pass.state.tally
        for flow, count in Counter(flows).items():
            event = flow.event
            if event is not None:
                tally.accepted(event.protocol, event.auth, EVENT, count=count)
                if flow.receivers:
                    tally.routed(flow.receivers * count, event.protocol)

    def _write_events(self, common: CommonFrames, flows: Sequence[Flow], outputs: RecordOutputs) -> None:
        prefix = self._id_prefix
        outputs.event_rows.extend(
            zip(
                [flow.template for flow in flows],
                [b"%b%d" % (prefix, row) for row in common.rows.tolist()],
                common.received_at.tolist(),
                common.message_ids,
                common.sent_at,
                common.bodies,
                strict=True,
            )
        )

    def _write_egress(self, common: CommonFrames, flows: Sequence[Flow], outputs: RecordOutputs) -> None:
        if len(flows) < FEWEST_IN_COLUMNS:
            columns = zip(flows, common.rows.tolist(), common.received_at.tolist(), common.frames, strict=True)
            for flow, row, received_at, frame in columns:
                for edge, route in flow.deliveries or ():
                    outputs.egress(edge).deliver(row, 0, route, received_at, frame)
            return
        numbers: dict[Flow, int] = {}
        numbered = np.array([numbers.setdefault(flow, len(numbers)) for flow in flows])
        rows = common.rows.astype(np.uint16)
        for edge, routes in _routes_by_edge(numbers).items():
            distinct = list({id(route): route for route in routes if route is not None}.values())
            place_of = {id(route): place for place, route in enumerate(distinct)}
            chosen = np.array([-1 if route is None else place_of[id(route)] for route in routes])[numbered]
            if None not in routes:
                outputs.egress(edge).deliver_run(rows, chosen, distinct, common.received_at, common.frames)
                continue
            goes = chosen >= 0
            frames = list(compress(common.frames, goes))
            outputs.egress(edge).deliver_run(rows[goes], chosen[goes], distinct, common.received_at[goes], frames)


def _routes_by_edge(flows: Collection[Flow]) -> dict[str, list[Route | None]]:
    """Returns for each edge the route of each flow; None for a flow that goes elsewhere."""
    edges: dict[str, list[Route | None]] = {}
    for number, flow in enumerate(flows):
        for edge, route in flow.deliveries or ():
            edges.setdefault(edge, [None] * len(flows))[number] = route
    return edges

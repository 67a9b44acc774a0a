"""The fast pass: routes the common frames of a raw record in columns, and leaves all others to the plain path.

    record ─► CommonReader of the protocol ─► flows ─► admit (dedup) ─► event rows, runs of egress rows for each edge

Frames of one *flow* (see `flows`) make events that differ in nothing but id, times, message id and body. What becomes
of them is therefore the same, as long as settings, keys and interests are.

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
from itertools import compress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gateway.core.event import SECOND_US, Event
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.reasons import Rejected
from gateway.protocols.spec import CodecContext, CommonFrames, CommonReader, ProtocolSpec
from gateway.records.egress_codec import Route
from gateway.records.raw_log.container import RecordColumns
from streaming_jobs.routing.destinations import Fanout
from streaming_jobs.routing.flows import Deliveries, Flow, Flows
from streaming_jobs.routing.frame_counters import EVENT
from streaming_jobs.routing.known_ids import FIRST_SECOND, LAST_SECOND
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.record_outputs import RecordOutputs

T = TypeVar("T")
log = logging.getLogger(__name__)
FEWEST_FRAMES = 2
"""A single frame costs the same either way; two cost less in columns."""
NONCE_BYTES = 16

Admit = Callable[[Sequence[bytes], Sequence[int]], list[bool]]
"""(repeat keys, seconds of receipt) of frames in their order → which of them are no repeats."""


class ColumnarPass:
    """Finds the common frames of records. One for each worker."""

    def __init__(self, state: MeshState, fanout: Fanout) -> None:
        self.state = state
        self.flows = Flows(state, fanout)
        self._faults = RateLimitedFaultLog(log)
        self._env: CodecContext | None = None
        self._readers: dict[str, CommonReader] = {}

    def read(self, record: RecordColumns, partition: int, offset: int) -> CommonRecord | None:
        """Returns the common frames of a record; None where every frame takes the plain path."""
        if self.state.traces is not None:
            return None
        try:
            return self._read(record, partition, offset)
        except Exception:  # no frame is refused for what is wrong here: the plain path judges each alone
            self._faults.log_exception("in the fast pass")
            return None

    def _read(self, record: RecordColumns, partition: int, offset: int) -> CommonRecord | None:
        if self._env is not self.state.env:
            self._env = self.state.env
            self._readers.clear()
            self.flows.forget()
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
        return CommonRecord(self, record, spec.name, partition, offset, common, self.flows.of(record, common))

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


def _rows_of(record: RecordColumns, protocol: str) -> NDArray[np.intp]:
    """Returns the indexes of the protocol's frames that answer nothing and stand in the log for the first time. Sources
    with facts are left out: each record makes them anew, so their flows could not be found again."""
    is_ours = [source.protocol == protocol and not source.facts for source in record.sources]
    if all(is_ours) and not record.replies and not record.agains:
        return np.arange(len(record))
    is_taken = np.array(is_ours)[record.source]
    is_taken[[at for at in (*record.replies, *record.agains) if at < len(record)]] = False
    return np.flatnonzero(is_taken)


class CommonRecord:
    """The common frames of one record on their way.

    The caller goes through the record from row to row: `route` takes common frames from a row on and says at which row
    it stopped; that row takes the plain path, and so on.
    """

    def __init__(
        self,
        columnar: ColumnarPass,
        record: RecordColumns,
        protocol: str,
        partition: int,
        offset: int,
        common: CommonFrames,
        flows: list[Flow],
    ) -> None:
        self._pass = columnar
        self._protocol = protocol
        self._record = record
        self._common = common
        self._flows = flows
        self._id_prefix = b"%d-%d-" % (partition, offset)
        self._rows: list[int] = common.rows.tolist()
        gaps = np.flatnonzero(np.diff(common.rows) != 1).tolist() if len(common) < len(record) else []
        self._run_ends = [*(place + 1 for place in gaps), len(common)]
        """Places at which common frames stop standing side by side."""
        self._first, self._last = record.received_between()
        self._seconds: list[int] = np.clip(common.received_at // SECOND_US, FIRST_SECOND, LAST_SECOND).tolist()
        self._received: list[int] = common.received_at.tolist()
        self._places = list(range(len(common)))
        self._going: list[int] = []
        self._going_to: list[Deliveries] = []
        """Places of frames that are not in egress yet, and where each goes."""

    def verdict(self, row: int) -> Event | Rejected | None:
        """Returns the verdict on a frame at which `route` has stopped; None where the plain path must judge it."""
        place = bisect_left(self._rows, row)
        if place == len(self._rows) or self._rows[place] != row:
            return self._common.refused.get(row)
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
        stop = self._run_ends[bisect_right(self._run_ends, begin)]
        for place in range(begin, stop):
            flow = flows[place]
            if flow is not checked:
                if not flow.knows_receivers(version, first, last):
                    self._pass.flows.find_receivers(flow, first, last)
                if flow.is_plain:
                    return place
                checked = flow
        return stop

    def _route_run(self, begin: int, end: int, admit: Admit, outputs: RecordOutputs) -> None:
        flows = self._flows[begin:end]
        self._count(flows)
        is_new = admit(self._common.repeat_keys[begin:end], self._seconds[begin:end])
        if False in is_new:
            self._pass.state.tally.repeated(self._protocol, is_new.count(False))
            flows = list(compress(flows, is_new))

        def new(column: list[T]) -> list[T]:
            part = column[begin:end]
            return part if len(flows) == len(part) else list(compress(part, is_new))

        common, prefix = self._common, self._id_prefix
        outputs.event_rows += zip(
            [flow.template for flow in flows],
            [b"%b%d" % (prefix, row) for row in new(self._rows)],
            new(self._received),
            new(common.message_ids),
            new(common.sent_at),
            new(common.bodies),
            strict=True,
        )
        self._going += new(self._places)
        self._going_to += [flow.deliveries or () for flow in flows]
        outputs.before_entries(self._write_egress)

    def _count(self, flows: Sequence[Flow]) -> None:
        """Counts each frame, a repeat too."""
        tally = self._pass.state.tally
        for flow, count in Counter(flows).items():
            event = flow.event
            if event is not None:
                tally.accepted(event.protocol, event.auth, EVENT, count=count)
                if flow.receivers:
                    tally.routed(flow.receivers * count, event.protocol)

    def _write_egress(self, outputs: RecordOutputs) -> None:
        """Writes the runs since the last time as one run. No plain frame has written an entry in between."""
        places, self._going = self._going, []
        deliveries, self._going_to = self._going_to, []
        distinct = {id(distinct_delivery): distinct_delivery for distinct_delivery in deliveries}
        edges = _routes_by_edge(distinct.values())
        if not edges:
            return
        numbers = {name: number for number, name in enumerate(distinct)}
        numbered = np.array([numbers[id(distinct_delivery)] for distinct_delivery in deliveries])
        rows, received_at, frames = self._common.rows, self._common.received_at, self._common.frames
        if len(places) < len(rows):
            rows, received_at, frames = rows[places], received_at[places], [frames[place] for place in places]
        indexes = rows.astype(np.uint16)
        for edge, routes in edges.items():
            chosen = [route for route in routes if route is not None]
            number_of = {id(route): number for number, route in enumerate(chosen)}
            route_of = np.array([number_of.get(id(route), -1) for route in routes])[numbered]
            builder = outputs.egress(edge)
            if len(chosen) == len(routes):
                builder.deliver_run(indexes, route_of, chosen, received_at, frames)
                continue
            goes = route_of >= 0
            builder.deliver_run(indexes[goes], route_of[goes], chosen, received_at[goes], list(compress(frames, goes)))


def _routes_by_edge(distinct: Collection[Deliveries]) -> dict[str, list[Route | None]]:
    """Returns for each edge the routes to it; None for deliveries that go elsewhere."""
    edges: dict[str, list[Route | None]] = {}
    for number, deliveries in enumerate(distinct):
        for edge, route in deliveries:
            edges.setdefault(edge, [None] * len(distinct))[number] = route
    return edges

"""Flows: what is known of frames that make events which differ in nothing but id, times, message id and body.

The first frame of a flow goes through the functions that the plain path uses too: `to_event`, permissions, `Fanout`,
`from_event`, `EventWriter`. What they say holds for all others, until settings or keys change; and what they say of
receivers, until interests do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.core.reasons import Rejected
from gateway.core.subjects import is_control
from gateway.protocols.spec import CommonFrames
from gateway.records.egress import Group
from gateway.records.egress_codec import Route
from gateway.records.event_records import EventTemplate
from gateway.records.raw_log.container import RecordColumns
from gateway.records.raw_log.frames import LINK_FACT, FrameSource
from streaming_jobs.routing.destinations import CACHED_RECEIVERS, Destinations, Encodings, Fanout, Receivers
from streaming_jobs.routing.frame_context import RECEIVER_BYTES
from streaming_jobs.routing.mesh_state import ListenerProtocol, MeshState

FLOWS_REMEMBERED = 16_384
"""The most flows that are remembered, at some 3 KB each. Beyond so many all are forgotten, and made when needed."""
FRAME_BYTES = 65_536
"""No datagram is longer, whatever else its entry holds."""

Deliveries = tuple[tuple[str, Route], ...]
"""An edge and a route each."""


@dataclass(slots=True, eq=False)
class Flow:
    """Everything that is known of all frames of a flow.

    Args:
        event: of the frame by which the flow was met.
        template: of its event records; None where the flow takes the plain path, whoever receives it.
        deliveries: an edge and a route each; None where they take the plain path for the receivers' sake.
        receivers: how many a frame has, at all edges.
        version: of the interest table, when receivers were asked for; the answer holds from `since` until `until`.
    """

    event: Event | None
    template: EventTemplate | None = None
    deliveries: Deliveries | None = ()
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

    source: FrameSource
    flows: dict[bytes, Flow] = field(default_factory=dict)


class Flows:
    """Knows the flows of a worker by source and name."""

    def __init__(self, state: MeshState, fanout: Fanout) -> None:
        self._state = state
        self._fanout = fanout
        self.forget()

    def forget(self) -> None:
        self._flows: dict[int, _SourceFlows] = {}
        self._routes: dict[tuple[str, str], tuple[Destinations, Deliveries]] = {}
        self._count = self._receivers = 0

    def of(self, record: RecordColumns, common: CommonFrames) -> list[Flow]:
        """Returns the flow of each common frame of a record."""
        if self._count > FLOWS_REMEMBERED or self._receivers > CACHED_RECEIVERS:
            self.forget()
        sources = record.source[common.rows].tolist()
        by_source = {source: self._of_source(record.sources[source]) for source in set(sources)}  # proven ones alone
        flows = [by_source[source].get(flow, _PLAIN) for source, flow in zip(sources, common.flows, strict=True)]
        if _PLAIN in flows:
            for at, flow in enumerate(flows):
                if flow is _PLAIN:
                    flows[at] = self._learn(record, int(common.rows[at]), by_source[sources[at]], common.flows[at])
        return flows

    def _of_source(self, source: FrameSource) -> dict[bytes, Flow]:
        source_flows = self._flows.get(id(source))
        if source_flows is None:
            source_flows = self._flows[id(source)] = _SourceFlows(source)
            self._count += 1
        return source_flows.flows

    def _learn(self, record: RecordColumns, row: int, flows: dict[bytes, Flow], name: bytes) -> Flow:
        """Asks the plain path's functions about a frame of a flow that was not met before."""
        flow = flows.get(name)
        if flow is None:
            raw = record.frame(row)
            listener_protocol = self._state.spoken(raw.source.listener, raw.source.protocol)
            try:
                event = listener_protocol.protocol.to_event(raw, "", listener_protocol.options, self._state.env)
            except Rejected:
                flow = Flow(None)
            else:
                flow = Flow(event, self._template(event) if self._is_common(event, listener_protocol) else None)
            flows[name] = flow
            self._count += 1
        return flow

    def _template(self, event: Event) -> EventTemplate:
        template = self._state.topics.events.template(event)
        return template.of_checked_bodies() if event.content_type == JSON else template

    def _is_common(self, event: Event, listener_protocol: ListenerProtocol) -> bool:
        return (
            event.kind is Kind.EVENT
            and not event.headers
            and not is_control(event.subject)
            and listener_protocol.asked_lease(event) is None
            and not listener_protocol.awaits_confirmation(event)
            and self._state.permissions.may_publish(event.principal, event.listener, event.subject)
        )

    # -- receivers ---------------------------------------------------------------------------------------------

    def find_receivers(self, flow: Flow, first: int, last: int) -> None:
        """Brings the flow's deliveries up to date, for frames received between these times."""
        if flow.event is None or flow.template is None:
            return
        shared = self._fanout.find_shared(flow.event.subject, first)
        flow.version, flow.since, flow.until = self._state.table.version, shared.since, shared.until
        if shared.destinations is None or last >= shared.until:
            flow.deliveries, flow.until = None, flow.since  # asked for again by the next record
            return
        flow.deliveries = self._deliveries(flow.event, shared.destinations)
        flow.receivers = sum(group.receivers for _, route in flow.deliveries or () for group in route.groups)

    def _deliveries(self, event: Event, destinations: Destinations) -> Deliveries | None:
        """Returns None where a frame cannot simply be passed on, or makes more than one entry for an edge."""
        if len({edge for edge, _ in destinations}) < len(destinations):
            return None
        if not all(
            self._goes_verbatim(event, encoding)
            for encodings in destinations.values()
            for encoding in encodings.values()
        ):
            return None
        cached = self._routes.get((event.subject, event.protocol))
        if cached is None or cached[0] is not destinations:
            self._receivers += _receivers_in(destinations) - (0 if cached is None else _receivers_in(cached[0]))
            cached = self._routes[event.subject, event.protocol] = destinations, _routes(event, destinations)
        largest = self._state.config.kafka.message_bytes
        return cached[1] if all(_most_bytes(route) <= largest for _, route in cached[1]) else None

    def _goes_verbatim(self, event: Event, receivers: Receivers) -> bool:
        """True where `from_event` hands on the frame itself for every event of this flow."""
        target = receivers.target
        if target.protocol != event.protocol or target.facts.get(LINK_FACT):
            return False
        listener_protocol = self._state.spoken(target.listener, target.protocol)
        try:
            encoded = listener_protocol.protocol.from_event(event, target, listener_protocol.options, self._state.env)
        except Rejected:
            return False
        return encoded.frame is event.raw and not encoded.stamps and not encoded.losses


def _receivers_in(destinations: Destinations) -> int:
    return sum(len(receivers) for encodings in destinations.values() for receivers in encodings.values())


def _routes(event: Event, destinations: Destinations) -> Deliveries:
    return tuple(
        [
            (edge, Route(event.kind, event.subject, event.protocol, epoch, _groups(encodings)))
            for (edge, epoch), encodings in destinations.items()
        ]
    )


def _groups(encodings: Encodings) -> tuple[Group, ...]:
    return tuple(
        [
            Group(encoding.target.protocol, b"", (), encoding.sessions, encoding.addresses, owed=encoding.owed)
            for encoding in encodings.values()
        ]
    )


def _most_bytes(route: Route) -> int:
    """Returns what an entry of the route takes at most, as the plain path counts it."""
    counted = sum(FRAME_BYTES + group.receivers * RECEIVER_BYTES for group in route.groups)
    return max(counted, FRAME_BYTES + len(route.packed))

"""Carries one raw frame through the row functions: what it is, and the outputs it has made so far."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gateway.config.settings import ordinal_of
from gateway.core.content import JSON, to_json
from gateway.core.event import MESH_ERROR_HEADER, NO_HEADERS, PROGRESSIVE_HEADER, Event, Kind
from gateway.core.ids import datagram_name, session_id
from gateway.core.reasons import MeshError, Reason, Rejected, Stage
from gateway.core.trace_context import TraceContext
from gateway.protocols.error_bodies import error_body
from gateway.protocols.spec import Encoded, Target
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.deliveries import encode as encode_deliveries
from gateway.records.egress import Confirm, Deliver, Entry, Group, Position
from gateway.records.event_records import EventRow
from gateway.records.link_trail import next_hop, with_trail
from gateway.records.raw_log.control_frames import MESH, DeliveryMigrated
from gateway.records.raw_log.frames import RawFrame, ReplyAddress
from gateway.records.rejected_frame import RefusedFrame
from streaming_jobs.routing.change_records import ROUTER, ChangeFrame
from streaming_jobs.routing.destinations import Destinations, Receivers, target_of
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord

_REQUEST = Kind.REQUEST
_MATCH, _DELIVER = Stage.MATCH, Stage.DELIVER
NOT_TO_ALL = "not every subscriber has got it"
RECEIVER_BYTES = 64
"""An address or a node's name; a session's number takes less."""
REQUEST_SESSION_HEADER, REQUEST_ID_HEADER = "request-session", "request-id"


class Hold(NamedTuple):
    """The conditions that an edge waits for before it delivers, as `Deliver` says."""

    ticket: str = ""
    required_confirmations: int = 0
    groups_on_failure: tuple[Group, ...] = ()


NO_HOLD = Hold()


@dataclass(slots=True)
class FrameContext:
    """One raw frame and the outputs it has made so far.

    `parts` counts the egress entries of this frame for each edge, so that each has a position of its own there,
    whatever other edges get. `recorded` and `refused` are the outcome of the frame itself, for the counters. `trace` is
    where the deliveries of a traced frame follow from. `changes` are what the frame changes about the interests, for
    every raw partition. `is_secret`: its body may be a token.
    """

    state: MeshState
    position: Position
    raw: RawFrame
    outs: list[OutputRecord] = field(default_factory=list)
    entries: list[tuple[int, Entry]] = field(default_factory=list)
    parts: Counter[str] = field(default_factory=Counter)
    recorded: Event | None = None
    event_row: EventRow | None = None
    refused: Reason | None = None
    trace: TraceContext | None = None
    changes: list[ChangeFrame] = field(default_factory=list)
    refusals: list[RefusedFrame] = field(default_factory=list)
    is_secret: bool = False

    @property
    def event_id(self) -> str:
        return self.raw.again.event_id if self.raw.again else self.position.event_id

    # -- outputs -----------------------------------------------------------------------------------------------

    def reject(self, refused: Rejected, stage: Stage) -> None:
        self.refusals.append(self.state.refusal(self.raw, self.position, refused, stage, is_secret=self.is_secret))
        if stage is _DELIVER:
            self.state.tally.rejected(stage, refused.reason, self.raw.source.protocol)
        else:
            self.refused = refused.reason

    def refuse_whole(self, refused: Rejected) -> None:
        """Refuses the frame and drops every output that it has made."""
        self.outs.clear()
        self.refusals.clear()
        self.entries.clear()
        self.changes.clear()
        self.recorded = self.event_row = None
        self.reject(refused, _MATCH)

    def record(self, event: Event) -> None:
        """Says what stands in `events` of this frame."""
        self.event_row = self.state.topics.events.row(event)
        self.recorded = event

    def next_position(self, edge: str) -> Position:
        """Returns the position of the next entry for this edge."""
        part = self.parts[edge]
        self.parts[edge] = part + 1
        return self.position.with_part(part) if part else self.position

    def tell(self, edge: str, entry: Entry) -> None:
        """Writes an entry for an edge. Its position is one that `next_position` gave for this edge."""
        self.entries.append((ordinal_of(edge), entry))

    def deliver(
        self,
        edge: str,
        epoch: int,
        event: Event,
        groups: tuple[Group, ...],
        *,
        hold: Hold = NO_HOLD,
        confirm: Confirm | None = None,
    ) -> None:
        """Writes a delivery for an edge."""
        again = self.raw.again
        entry = Deliver(
            self.next_position(edge),
            epoch,
            event.kind,
            event.subject,
            event.protocol,
            again.at if again else self.raw.received_at,
            groups,
            hold.ticket,
            again.event_id if again else "",
            hold.required_confirmations,
            hold.groups_on_failure,
            confirm,
            False,
            "" if self.trace is None else str(self.trace),
        )
        self.tell(edge, entry)
        destinations = sum(group.receivers for group in groups)
        if destinations:
            self.state.tally.routed(destinations, self.raw.source.protocol)

    def deliver_migrated(self, edge: str, migrated: DeliveryMigrated) -> None:
        """Delivers what another edge has owed so far: under the same name, because it has no outcome yet."""
        entry = Deliver(
            position=self.position.with_part(migrated.part),
            epoch=0,
            kind=Kind(migrated.kind),
            subject=migrated.subject,
            origin=migrated.origin,
            received_at=migrated.received_at,
            groups=(Group(migrated.protocol, b64decode(migrated.frame), migrated.stamps, owed=(migrated.node,)),),
            first_id=self.event_id,
            is_migrated=True,
        )
        self.tell(edge, entry)

    # -- encoding ----------------------------------------------------------------------------------------------

    def encode(self, event: Event, target: Target) -> Encoded:
        """Raises Rejected where the target's protocol has no form for it: then all of it is lost, for that reason."""
        try:
            encoded = self._encode(event, target)
        except Rejected as refused:
            self.state.tally.lost(event.protocol, target.protocol, refused.reason.value)
            raise
        for what in encoded.losses:
            self.state.tally.lost(event.protocol, target.protocol, what)
        return encoded

    def _encode(self, event: Event, target: Target) -> Encoded:
        spoken = self.state.spoken(target.listener, target.protocol)
        protocol = spoken.protocol
        if (trail := next_hop(event, target.facts, self.state.env.identity)) is not None:
            event = with_trail(event, trail, in_content_type=protocol.carries_content_type)
        if self.raw.again is not None:
            target = replace(target, again_at=self.raw.again.at)
        encoded = protocol.from_event(event, target, spoken.options, self.state.env)
        if len(encoded.frame) > self.state.largest_frame:
            raise Rejected(Reason.TOO_LARGE, f"{len(encoded.frame)} bytes for {target.protocol}: kafka.message_bytes")
        return encoded

    def cancel(self, event: Event, request_address: ReplyAddress) -> None:
        """Sends a cancel to every server of the subject. A server that does not know the request ignores it."""
        reply = request_address.pack()
        for server in self.state.table.servers(event.subject, event.received_at):
            try:
                encoded = self.encode(event, target_of(server))
            except Rejected:
                continue
            if not encoded.says_nothing:
                group = Group(server.protocol, encoded.frame, encoded.stamps, (server.session,), reply=reply)
                self.deliver(server.edge, server.epoch, event, (group,))

    def drop(self, reply: ReplyAddress) -> None:
        """Drops an open request as if its requester had cancelled it."""
        self.cancel(self._answer_event(reply, Kind.CANCEL), reply)

    def send(self, event: Event, destinations: Destinations, confirm: Confirm | None = None) -> list[tuple[Group, ...]]:
        """Writes an event: one encoding per group of receivers, one record per edge, or more if they are large.

        Returns the groups that were written. An event without an encoding for a group is undeliverable.
        """
        records: list[tuple[Group, ...]] = []
        for (edge, epoch), encodings in destinations.items():
            made = [self._group(event, edge, epoch, encoding) for encoding in encodings.values()]
            for groups in in_records([group for group in made if group is not None], self.state.largest_frame):
                self.deliver(edge, epoch, event, groups, confirm=confirm)
                records.append(groups)
        return records

    def send_awaited(self, event: Event, destinations: Destinations) -> None:
        """Sends like `send`. The sender hears, once every record has been delivered, whether all receivers got it."""
        to = self.requester(event)
        records = self.send(event, destinations, Confirm(to.edge, event.id))
        if sum(map(len, records)) < sum(map(len, destinations.values())):  # some receivers' protocol had no form for it
            self.answer_error(to, MeshError.UNDELIVERABLE, NOT_TO_ALL)
            return
        done = self._answer_event(to, Kind.RESPONSE)
        if not records:
            self.answer(done, to)
            return
        failed = self._error_event(to, MeshError.UNDELIVERABLE, NOT_TO_ALL)
        hold = Hold(event.id, len(records), (self._answer_group(failed, to),))
        self.deliver(to.edge, to.epoch, done, (self._answer_group(done, to),), hold=hold)

    def _group(self, event: Event, edge: str, epoch: int, receivers: Receivers) -> Group | None:
        target = receivers.target
        try:
            encoded = self.encode(event, target)
        except Rejected as refused:
            self._undeliverable(refused, edge, epoch, receivers)
            return None
        return Group(
            target.protocol,
            encoded.frame,
            encoded.stamps,
            receivers.sessions,
            receivers.addresses,
            owed=receivers.owed,
        )

    def _undeliverable(self, refused: Rejected, edge: str, epoch: int, receivers: Receivers) -> None:
        """Refuses it for these receivers only: the event itself stands."""
        self.reject(refused, _DELIVER)
        names = [session_id(edge, epoch, number) for number in receivers.sessions]
        names += [datagram_name(*address) for address in receivers.addresses] + list(receivers.owed)
        at = self.raw.received_at
        outcomes = [DeliveryOutcome(self.event_id, name, "undeliverable", refused.reason, at) for name in names]
        self.outs.append(self.state.topics.deliveries(encode_deliveries(ROUTER, outcomes)))

    # -- answers -----------------------------------------------------------------------------------------------

    def is_awaited(self, event: Event) -> bool:
        """Returns True if the event's sender waits to hear what became of it."""
        if event.kind is _REQUEST:
            return True
        return self.state.spoken(event.listener, event.protocol).awaits_confirmation(event)

    def requester(self, event: Event) -> ReplyAddress:
        """Returns where the answer to this request goes: the session it came from."""
        source = self.raw.source
        return ReplyAddress(
            source.protocol,
            source.listener,
            source.edge,
            source.epoch,
            source.session,
            event.message_id,
            event.subject,
            event.headers.get(PROGRESSIVE_HEADER) != "false",
            source.facts,
        )

    def answer(self, event: Event, to: ReplyAddress, *, ticket: str = "") -> None:
        """Sends an answer to who asked, in the requester's protocol."""
        try:
            group = self._answer_group(event, to)
        except Rejected as refused:
            self.reject(refused, _DELIVER)
            if event.kind is Kind.PROGRESS:  # the server is still at work, which is all that is left of it
                self.state.tally.lost(event.protocol, to.protocol, str(Kind.PROGRESS))
                group = Group(to.protocol, b"", sessions=(to.session,), request=to.request)
            elif event.headers.get(MESH_ERROR_HEADER):
                return  # not even the error can be said
            else:
                self.answer_error(to, MeshError.BAD_REQUEST, f"the answer has no form here: {refused.reason}")
                return
        self.deliver(to.edge, to.epoch, event, (group,), hold=Hold(ticket))

    def _answer_group(self, event: Event, to: ReplyAddress) -> Group:
        encoded = self.encode(event, Target(to.protocol, to.listener, to.facts, to.request, to.progressive))
        if event.kind is Kind.ERROR and event.protocol not in (MESH, to.protocol):
            if self.state.protocol(event.protocol).error_header in event.headers:
                self.state.tally.lost(event.protocol, to.protocol, "code")
        return Group(to.protocol, encoded.frame, encoded.stamps, (to.session,), request=to.request)

    def answer_value(self, to: ReplyAddress, value: object, *, ticket: str = "") -> None:
        self.answer(self._answer_event(to, Kind.RESPONSE, to_json(value)), to, ticket=ticket)

    def answer_error(
        self, to: ReplyAddress, error: MeshError, message: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self.answer(self._error_event(to, error, message, headers), to)

    def _error_event(
        self, to: ReplyAddress, error: MeshError, message: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> Event:
        headers = {MESH_ERROR_HEADER: error.value, **headers}
        return self._answer_event(to, Kind.ERROR, error_body(error, message), headers)

    def _answer_event(
        self, to: ReplyAddress, kind: Kind, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> Event:
        source = self.raw.source
        return Event(
            id=self.event_id,
            kind=kind,
            subject=to.subject,
            protocol=MESH,
            listener=source.listener,
            edge=source.edge,
            received_at=self.raw.received_at,
            correlation=to.request,
            content_type=JSON if body else "",
            body=body,
            headers=headers,
        )


def in_records(groups: list[Group], largest: int) -> list[tuple[Group, ...]]:
    """Splits groups into as few records as hold them: the encodings of one large event may need several."""
    if len(groups) == 1:  # most events
        return [(groups[0],)]
    records: list[tuple[Group, ...]] = []
    start, size = 0, 0
    for at, group in enumerate(groups):
        more = len(group.frame) + group.receivers * RECEIVER_BYTES
        if at > start and size + more > largest:
            records.append(tuple(groups[start:at]))
            start, size = at, 0
        size += more
    if groups:
        records.append(tuple(groups[start:]))
    return records


def naming_request(event: Event, replies: Sequence[ReplyAddress]) -> Event:
    """Returns an answer as it is recorded, with two headers that name its request in the requester's words.

    The answer itself names its request in the server's words. With the headers the one can be found from the other
    (they are the request's `session` and `message_id`).
    """
    if not replies:
        return event
    first = replies[0]
    request_headers = {REQUEST_SESSION_HEADER: session_id(first.edge, first.epoch, first.session)}
    return replace(event, headers={**event.headers, **request_headers, REQUEST_ID_HEADER: first.request})


MESH_ERRORS = {
    Reason.NO_RESPONDER: MeshError.NO_RESPONDER,
    Reason.FORBIDDEN: MeshError.FORBIDDEN,
    Reason.TIMEOUT: MeshError.TIMEOUT,
    Reason.UNDELIVERABLE: MeshError.UNDELIVERABLE,
    Reason.INTERNAL: MeshError.INTERNAL,
}
"""The errors that a requester gets for a refusal. Any other refusal is its own mistake: `bad_request`."""

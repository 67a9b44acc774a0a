"""The row functions: one raw record in, rows out. The same for the router, `replay`, `audit`, and the tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from gateway.core.event import NO_HEADERS, SECOND_US, SERVED_BESIDE_HEADER, Event, Kind
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.reasons import MeshError, Reason, Rejected, Stage
from gateway.core.subjects import is_control, is_login
from gateway.interests.interest import Interest
from gateway.protocols.spec import Lease
from gateway.records import egress_codec
from gateway.records.egress import NO_FRAME, Group, Position
from gateway.records.event_records import record_bytes
from gateway.records.link_trail import is_loop
from gateway.records.raw_log.container import RecordColumns, read_columns
from gateway.records.raw_log.frames import RawFrame, Replayed
from streaming_jobs.routing.columnar import ColumnarPass, CommonRecord
from streaming_jobs.routing.control_frames import ControlFrameHandler
from streaming_jobs.routing.control_subjects import ControlSubjects
from streaming_jobs.routing.destinations import Fanout, target_of
from streaming_jobs.routing.frame_context import MESH_ERRORS, FrameContext, naming_request
from streaming_jobs.routing.frame_counters import AGAIN, CONTROL, EVENT, REJECTED
from streaming_jobs.routing.frame_judge import FrameJudge, Verdict, internal
from streaming_jobs.routing.interest_log import InterestLog
from streaming_jobs.routing.known_ids import KnownIds, message_key
from streaming_jobs.routing.leases import Leases
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import bytes_of
from streaming_jobs.routing.record_outputs import RecordOutputs, RoutedRecord, entry_bytes
from streaming_jobs.routing.routed_frame import RoutedFrame

log = logging.getLogger(__name__)
_REQUEST, _CANCEL, _INTERNAL = Kind.REQUEST, Kind.CANCEL, Reason.INTERNAL  # to find a member of an enum takes 50 ns
_DECODE, _MATCH = Stage.DECODE, Stage.MATCH


class FrameRouter:
    """The row functions of one worker. `route_record` is the one pass of Python that a record gets.

    `known` holds the ids of the records that were routed so far; somebody who begins in the middle of the log puts what
    was known there in its place. Without `in_columns` every frame takes the plain path, which comes to the same.
    """

    def __init__(self, state: MeshState, *, in_columns: bool = True) -> None:
        self._state = state
        self.known = KnownIds(state.horizon_seconds)
        self._fanout = Fanout(state)
        self._columnar = ColumnarPass(state, self._fanout) if in_columns else None
        interests = InterestLog(state)
        self._control = ControlSubjects(state, interests)
        self._leases = Leases(state, interests)
        self._mesh_events = ControlFrameHandler(state, interests, self._fanout)
        self._faults = RateLimitedFaultLog(log)
        self.judge = FrameJudge(state, self._faults)

    @property
    def horizon_seconds(self) -> int:
        """The longest time between the receipt of a frame and of its repeat."""
        return self._state.horizon_seconds

    def route_record(self, value: bytes, partition: int, offset: int, now_seconds: int) -> RoutedRecord:
        """Routes a record of the log, which stands right behind the one before."""
        state, known_ids = self._state, self.known
        record = RecordOutputs(state, known_ids, partition, offset)
        try:
            columns = read_columns(value)
        except Rejected as refused:
            record.refuse_record(refused, value)
            return record.finish(known_ids.advance(now_seconds, now_seconds))
        received_last = columns.received_between()[1] if len(columns) else 0
        log_seconds = known_ids.advance(received_last // SECOND_US, now_seconds)
        common = self._columnar.read(columns, partition, offset) if self._columnar is not None else None
        if common is not None:
            try:
                self._route_mixed(columns, common, record, partition, offset)
                return record.finish(log_seconds, columns)
            except Exception:  # a mistake of ours: no frame is refused for it, and none may end the query
                self._faults.log_exception("in the fast pass")
                known_ids.take_back()
                state.tally.take()
                record = RecordOutputs(state, known_ids, partition, offset)
        record.add_frames(list(self.route_frames(columns.frames(), partition, offset)))
        return record.finish(log_seconds, columns)

    def _route_mixed(
        self, columns: RecordColumns, common: CommonRecord, record: RecordOutputs, partition: int, offset: int
    ) -> None:
        """Routes runs of common frames in columns, and what stands between them frame by frame."""
        row = 0
        while row < len(columns):
            stop = common.route(row, self.known.admit, record)
            if stop == row:
                stop = common.plain_until(row)
                rows = range(row, stop)
                frames, verdicts = [columns.frame(at) for at in rows], [common.verdict(at) for at in rows]
                record.add_frames(list(self.route_frames(frames, partition, offset, row, verdicts)))
            row = stop

    def route_frames(
        self,
        frames: Sequence[RawFrame],
        partition: int,
        offset: int,
        first: int = 0,
        verdicts: Sequence[Verdict] = (),
    ) -> Iterator[RoutedFrame]:
        """Returns frame by frame what the router makes of a record, whether it is a repeat or not.

        Args:
            first: the index of the first of these frames in the record.
            verdicts: on frames that were judged before; None for one that was not.
        """
        traces = self._state.traces
        traced = traces.of_record(frames, partition, offset) if traces is not None else None
        largest = self._state.config.kafka.message_bytes
        complete = self.judge.verdicts(frames, partition, offset, first, verdicts)
        for index, (raw, judged) in enumerate(zip(frames, complete, strict=True), first):
            if isinstance(judged, Rejected) and traced is None:
                yield self._refused(index, raw, Position(partition, offset, index), judged)
                continue
            work = FrameContext(self._state, Position(partition, offset, index), raw)
            if traced is not None:
                judged = traced.begin(work, judged)
            key = self._route(work, judged)
            if _largest_record(work, self._state) > largest:
                too_large = Rejected(Reason.TOO_LARGE, "what comes of it is more than kafka.message_bytes")
                self._refuse_whole(work, judged, too_large)
                key = None
            self._count(raw.source.protocol, work, judged)
            if traced is not None and work.trace is not None:
                traced.end(work, judged)
            yield RoutedFrame(
                index, raw, key, work.outs, work.entries, work.recorded, work.event_row, work.changes, work.refusals
            )

    def _refused(self, index: int, raw: RawFrame, position: Position, refused: Rejected) -> RoutedFrame:
        """Returns what comes of a frame that is no event, with as little work as possible: anybody may send it."""
        self._state.tally.rejected(_DECODE, refused.reason, raw.source.protocol)
        refusal = self._state.refusal(raw, position, refused, _DECODE)
        return RoutedFrame(index, raw, None, [], [], None, None, (), (refusal,))

    # -- match and encode --------------------------------------------------------------------------------------

    def _route(self, work: FrameContext, judged: Verdict) -> str | None:
        """Fills the work's outputs. Returns the dedup key, if the frame has one."""
        if isinstance(judged, Rejected):
            work.reject(judged, _DECODE)
            return None
        try:
            if judged is None:
                return self._mesh_events.handle(work)
            work.is_secret = is_login(judged.subject)
            self._dispatch(work, judged)
            return self.key_of(judged)
        except Rejected as refused:
            work.reject(refused, _MATCH)
        except Exception:
            self._refuse_whole(work, judged, internal(self._faults, _MATCH))
        return None

    def _refuse_whole(self, work: FrameContext, judged: Verdict, refused: Rejected) -> None:
        """Whatever was to come of it. Who waits for an answer hears so now, and not by a timeout."""
        work.refuse_whole(refused)
        if isinstance(judged, Event):
            with suppress(Exception):  # what has failed once may fail here too; then only its record is left
                self._tell(work, judged, refused)

    def _count(self, protocol: str, work: FrameContext, judged: Verdict) -> None:
        """A frame counts as refused if nothing but a refusal was recorded of it."""
        tally = self._state.tally
        refused = work.refused if work.refused is _INTERNAL or not work.recorded else None
        if isinstance(judged, Event):
            tally.accepted(protocol, judged.auth, REJECTED if refused else _outcome(work), refused or "")
        elif refused:
            tally.rejected(_DECODE, refused, protocol)
        else:
            tally.control(protocol)

    def key_of(self, event: Event) -> str | None:
        """Returns the key by which a repeat of this event is known."""
        return self._state.spoken(event.listener, event.protocol).dedup_key(event)

    def _dispatch(self, work: FrameContext, event: Event) -> None:
        spoken = self._state.spoken(event.listener, event.protocol)
        if is_loop(event, self._state.env.identity):
            work.reject(Rejected(Reason.FORBIDDEN, "it has come round by links to where it was"), _MATCH)
        elif work.raw.again is not None:
            self._send_again(work, event, work.raw.again)
        elif event.kind.answers:
            self._answer(work, event)
        elif (lease := spoken.asked_lease(event)) is not None:
            self._presence(work, event, lease)
        elif self._control.handle(work, event):
            return
        elif not self._state.permissions.may_publish(event.principal, event.listener, event.subject):
            self._refuse(work, event, Rejected(Reason.FORBIDDEN, _why_forbidden(event.subject)))
        elif event.kind is _REQUEST:
            self._request(work, event)
        elif event.kind is _CANCEL:
            work.record(event)
            work.cancel(event, replace(work.requester(event), request=event.correlation))
        else:
            work.record(event)
            destinations = self._fanout.find(event)
            if spoken.awaits_confirmation(event):
                work.send_awaited(event, destinations)
            else:
                work.send(event, destinations)

    def is_repeatable(self, event: Event) -> bool:
        """Returns True if the event may go through the mesh again at a later time.

        Nobody waits for an old answer. An old hello would put back what its node wants no more. An old subscription
        belongs to a session that is gone.
        """
        spoken = self._state.spoken(event.listener, event.protocol)
        return event.kind is Kind.EVENT and not is_control(event.subject) and spoken.asked_lease(event) is None

    def _send_again(self, work: FrameContext, event: Event, again: Replayed) -> None:
        if not self.is_repeatable(event):
            return
        if not self._state.permissions.may_publish(event.principal, event.listener, event.subject):
            work.reject(Rejected(Reason.FORBIDDEN, _why_forbidden(event.subject)), _MATCH)
            return
        work.record(event)
        work.send(event, self._fanout.find_again(event, again))

    def _presence(self, work: FrameContext, event: Event, lease: Lease) -> None:
        """Records and passes on a hello or a heartbeat, and does what it asks for.

        Nothing is done for one that passed before: what came of it would be dropped as a repeat, and whoever has caught
        a packet could use up the rate of its node.
        """
        work.record(event)
        work.send(event, self._fanout.find(event))
        key = self.key_of(event)
        if key is None or not self.known.has(message_key(key), event.received_at // SECOND_US):
            self._leases.handle(work, event, lease)

    def _refuse(
        self, work: FrameContext, event: Event, refused: Rejected, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        work.reject(refused, _MATCH)
        self._tell(work, event, refused, headers)

    def _tell(
        self, work: FrameContext, event: Event, refused: Rejected, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        if work.is_awaited(event):
            error = MESH_ERRORS.get(refused.reason, MeshError.BAD_REQUEST)
            work.answer_error(work.requester(event), error, refused.detail, headers)

    def _request(self, work: FrameContext, event: Event) -> None:
        """Sends a request to one server of the subject: the same one for a retry."""
        retry = f"{event.node}:{event.message_id}"
        server = self._state.table.server(event.subject, retry, event.received_at, self._may_be_asked)
        if server is None:
            self._unserved(work, event)
            return
        try:
            encoded = work.encode(event, target_of(server))
        except Rejected as refused:
            work.record(event)
            work.reject(refused, Stage.DELIVER)
            why = "the server's protocol has no form for this request"
            work.answer_error(work.requester(event), MESH_ERRORS.get(refused.reason, MeshError.BAD_REQUEST), why)
            return
        work.record(event)
        reply = work.requester(event).pack()
        group = Group(server.protocol, encoded.frame, encoded.stamps, (server.session,), reply=reply)
        work.deliver(server.edge, server.epoch, event, (group,))

    def _may_be_asked(self, server: Interest, subject: str) -> bool:
        return self._state.permissions.may_be_asked(server.node, server.listener, subject)

    def _unserved(self, work: FrameContext, event: Event) -> None:
        """Handles a request that nobody serves.

        If calls may be events and somebody subscribes, it is an event and no answer is owed.
        """
        destinations = self._fanout.find(event)
        if not (destinations and self._state.protocol(event.protocol).calls_may_be_events):
            refused = Rejected(Reason.NO_RESPONDER, f"nobody serves {event.subject}")
            self._refuse(work, event, refused, self._served_beside(event))
            return
        work.record(event)
        requester = work.requester(event)
        owed_nothing = Group(requester.protocol, NO_FRAME, sessions=(requester.session,), request=requester.request)
        as_event = replace(event, kind=Kind.EVENT)
        work.send(as_event, destinations)
        work.deliver(requester.edge, requester.epoch, as_event, (owed_nothing,))

    def _served_beside(self, event: Event) -> Mapping[str, str]:
        """Some protocols tell an unknown name from an unknown part of a known one."""
        component = event.subject.rpartition(".")[0]
        others = bool(component) and self._state.table.component_has_servers(component, event.received_at)
        return {SERVED_BESIDE_HEADER: "true"} if others else NO_HEADERS

    def _answer(self, work: FrameContext, event: Event) -> None:
        replies = work.raw.reply_addresses
        work.record(naming_request(event, replies))
        for reply in replies:  # a sign of life is of all that are open, each about a subject of its own
            work.answer(event if reply.subject == event.subject else replace(event, subject=reply.subject), reply)


def _largest_record(work: FrameContext, state: MeshState) -> int:
    """Returns the size of the largest record that comes of a frame; about that where it is far below the limit."""
    is_small_below = state.config.kafka.message_bytes // 4
    largest = 0
    for _, entry in work.entries:
        size = entry_bytes(entry)
        if size > is_small_below:
            size = len(egress_codec.encode(entry))
        if size > largest:
            largest = size
    if work.outs:
        largest = max(largest, *map(bytes_of, work.outs))
    if (row := work.event_row) is not None and len(work.raw.data) + len(row.body) > is_small_below:
        largest = max(largest, *(record_bytes(*record) for record in state.topics.events.records([row], 0)))
    return largest


def _outcome(work: FrameContext) -> str:
    if work.raw.again is not None:
        return AGAIN
    return EVENT if work.recorded else CONTROL


def _why_forbidden(subject: str) -> str:
    return "only the mesh publishes under `mesh.`" if is_control(subject) else "this node may not publish that"

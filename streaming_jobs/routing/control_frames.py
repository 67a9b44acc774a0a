"""Frames of the mesh itself: sessions that open and close, edges that start anew, interests that come back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from gateway.core.content import JSON
from gateway.core.event import SECOND_US, Event, Kind
from gateway.core.ids import FramePosition, SessionId, session_id
from gateway.core.reasons import MeshError, Rejected, Stage
from gateway.interests import changes
from gateway.interests.changes import NewEpoch, Put
from gateway.interests.interest import Interest, InterestKey, Verb
from gateway.interests.records import probe_record
from gateway.records.egress import EdgeRestarted, InterestApplied, MigrationPhase, MigrationStep, RecordConfirmed
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import (
    MESH,
    DeliveryConfirmed,
    DeliveryMigrated,
    EdgeStarted,
    InterestChanged,
    LatencyProbe,
    MigrationFinished,
    RequestDropped,
    RequestsAbandoned,
    RuleEvent,
    SessionClosed,
    SessionOpened,
)
from gateway.records.raw_log.frames import REDELIVER_FACT, FrameSource
from streaming_jobs.routing.destinations import Fanout
from streaming_jobs.routing.frame_context import FrameContext
from streaming_jobs.routing.interest_log import InterestLog
from streaming_jobs.routing.interest_requests import check_allowed, session_interest
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.rule_event import rule_event

SESSION_OPENED, SESSION_CLOSED = "mesh.session.opened", "mesh.session.closed"
FORGOTTEN_SECONDS = 600
"""A lease that has been over for so long goes: no edge's clock is so far behind that its events come before that."""
LOOK_SECONDS = 60


class ControlFrameHandler:
    def __init__(self, state: MeshState, interests: InterestLog, fanout: Fanout) -> None:
        self._state = state
        self._interests = interests
        self._fanout = fanout
        self._looked_at = 0

    def handle(self, work: FrameContext) -> str | None:
        """Does what the frame says; its dedup key, if it has one."""
        match control_frames.decode(work.raw.data):
            case SessionOpened() as opened:
                self._as_peer(work, opened.speaks)
                self._opened(work, opened)
            case SessionClosed() as closed:
                self._as_peer(work, closed.speaks)
                self._closed(work, closed)
            case EdgeStarted():
                self._edge_started(work)
            case RequestsAbandoned() | RequestDropped() as over:
                self._requests_over(work, over)
            case InterestChanged() as changed:
                self._changed(work, changed)
            case DeliveryConfirmed(edge, ticket, part, failed):
                told_by = work.raw.source.edge
                work.tell(edge, RecordConfirmed(work.next_position(edge), ticket, told_by, part, failed))
            case DeliveryMigrated() as migrated:
                return self._migrated(work, migrated)
            case MigrationFinished(node, move, edge):
                work.tell(edge, MigrationStep(work.next_position(edge), MigrationPhase.DONE, node, move))
            case LatencyProbe(token):
                record = probe_record(work.position.partition, token, work.raw.received_at)
                work.outs.append(self._state.topics.interest(*record))
            case RuleEvent() as found:
                event = rule_event(found, work, self._state.env.identity)
                work.record(event)
                work.send(event, self._fanout.find(event))
                return f"rule:{found.token}"
        return None

    def _as_peer(self, work: FrameContext, speaks: str) -> None:
        """The frame is about a peer's session: its source counts as that peer's."""
        work.raw = replace(work.raw, source=replace(work.raw.source, protocol=speaks))

    def _requests_over(self, work: FrameContext, frame: RequestsAbandoned | RequestDropped) -> None:
        """Tells the other end of requests that are over at one end."""
        for reply in work.raw.reply_addresses:
            if isinstance(frame, RequestDropped):
                work.drop(reply)
            else:
                work.answer_error(reply, MeshError(frame.error), "the session that got this request is gone")

    # -- sessions ------------------------------------------------------------------------------------------

    def _opened(self, work: FrameContext, opened: SessionOpened) -> None:
        source = work.raw.source
        former = self._of_former_node(source) if opened.again else []
        if opened.again:
            self._interests.set_facts(work, source.session_id)
        if source.facts.get(REDELIVER_FACT):
            self._come_back(work)
        keys = [(Verb.SUBSCRIBE, pattern, "") for pattern in opened.subscribe]
        keys += [(Verb.SERVE, pattern, "") for pattern in opened.serve]
        keys += [(key.verb, key.pattern, key.group) for key in former]
        granted = self._grant(work, dict.fromkeys(keys))
        self._interests.remove(work, [key for key in former if key not in granted])
        if not opened.again:
            self._announce(work, SESSION_OPENED, "")

    def _grant(self, work: FrameContext, keys: Iterable[tuple[Verb, str, str]]) -> set[InterestKey]:
        """Returns what the session's node may have of these: verb, pattern and group."""
        source, granted, added = work.raw.source, [], 0
        for verb, pattern, queue in keys:
            try:
                check_allowed(self._state, source, verb, pattern)
                interest = session_interest(source, work.position, verb, pattern, queue)
                if interest.key not in self._interests.of(interest.subscriber):
                    added += 1
                    self._interests.check_room(source.listener, source.node, added)
                granted.append(interest)
            except Rejected as refused:
                work.reject(refused, Stage.MATCH)
        self._interests.put(work, granted)
        return {interest.key for interest in granted}

    def _of_former_node(self, source: FrameSource) -> list[InterestKey]:
        """Returns what the session has asked for before its peer proved who it is.

        Durable names are none of these: they have a node that was proven before the session began.
        """
        return [
            interest.key for interest in self._interests.of(source.session_id).values() if interest.node != source.node
        ]

    def _closed(self, work: FrameContext, closed: SessionClosed) -> None:
        source = work.raw.source
        self._interests.end(work, source.session_id)
        if seconds := source.facts.get(REDELIVER_FACT):
            mine = self._interests.of(source.durable_name).values()
            here = [
                interest for interest in mine if (interest.edge, interest.epoch, interest.session) == _session(work)
            ]
            self._let_wait(work, here, int(seconds))
        self._announce(work, SESSION_CLOSED, closed.reason)

    def _come_back(self, work: FrameContext) -> None:
        """A node that outlives its sessions has a new one: what it wanted goes there, and what it is owed follows."""
        source = work.raw.source
        position = work.position.frame
        moved = [
            replace(
                interest,
                edge=source.edge,
                epoch=source.epoch,
                session=source.session,
                facts=source.facts,
                expires_at=None,
                left=_left_session(interest, source.edge, position),
                position=position,
            )
            for interest in self._interests.of(source.durable_name).values()
        ]
        self._interests.put(work, moved)

    def _let_wait(self, work: FrameContext, interests: list[Interest], seconds: int) -> None:
        """Lets the subscriptions of a node that has gone wait for it this long."""
        until = work.raw.received_at + seconds * SECOND_US
        position = work.position.frame
        waiting = [replace(interest, expires_at=until, left="", position=position) for interest in interests]
        self._interests.put(work, waiting)

    def _edge_started(self, work: FrameContext) -> None:
        """Sessions of the epochs before are over: their interests end, or begin to wait."""
        source = work.raw.source
        if work.position.partition == 0:  # the frame stands in all of them
            self._tell_servers(work)
        still_open = [
            interest
            for interest in self._state.table
            if interest.durable and not interest.address and interest.edge == source.edge
        ]
        applied = self._state.table.apply(NewEpoch(source.edge, source.epoch))
        self._interests.new_epoch(work, applied.removed)
        for interest in still_open:
            mine = interest.position[0] == work.position.partition
            if mine and interest.epoch < source.epoch and interest.expires_at is None:
                self._let_wait(work, [interest], int(interest.facts.get(REDELIVER_FACT, 0)))

    def _tell_servers(self, work: FrameContext) -> None:
        """Edges know what their sessions were asked, and by whom."""
        source = work.raw.source
        serving = {interest.edge for interest in self._state.table if interest.verb is Verb.SERVE} - {source.edge}
        for edge in sorted(serving):
            work.tell(edge, EdgeRestarted(work.next_position(edge), source.edge, source.epoch))

    def _announce(self, work: FrameContext, subject: str, reason: str) -> None:
        """Presence is an event like all others."""
        source = work.raw.source
        fields = {"session": source.session_id, "node": source.node, "protocol": source.protocol}
        fields |= {"listener": source.listener, "edge": source.edge, "peer": source.peer}
        if reason:
            fields["reason"] = reason
        event = Event(
            id=work.event_id,
            kind=Kind.EVENT,
            subject=subject,
            protocol=MESH,
            listener=source.listener,
            edge=source.edge,
            session=source.session_id,
            peer=source.peer,
            node=source.node,
            received_at=work.raw.received_at,
            content_type=JSON,
            body=json.dumps(fields, separators=(",", ":")).encode(),
            auth=source.auth,
        )
        work.record(event)
        work.send(event, self._fanout.find(event))

    # -- interests -----------------------------------------------------------------------------------------

    def _changed(self, work: FrameContext, changed: InterestChanged) -> None:
        """Applied where it stands in this partition's log; whoever waits for it is told."""
        change = changes.from_bytes(changed.change.encode())
        self._state.table.apply(change)
        self._interests.landed(change)
        self._forget_leases(work.raw.received_at)
        if changed.ticket:
            position = work.next_position(changed.edge)
            work.tell(changed.edge, InterestApplied(position, changed.ticket, work.position.partition))
        if isinstance(change, Put) and change.interest.left:
            _tell_move(work, change.interest)

    def _forget_leases(self, now_us: int) -> None:
        """Forgets old leases now and then, by the log's time: a backlog may be hours old."""
        if now_us - self._looked_at > LOOK_SECONDS * SECOND_US:
            self._looked_at = now_us
            self._state.table.forget_leases(now_us - FORGOTTEN_SECONDS * SECOND_US)

    def _migrated(self, work: FrameContext, migrated: DeliveryMigrated) -> str:
        """Routes a migrated delivery to the node's current edge.

        The returned dedup key drops a second copy after a crash of the old edge.
        """
        here = next(iter(self._state.table.of(migrated.node)), None)
        work.deliver_migrated(here.edge if here else migrated.edge, migrated)
        return f"debt:{migrated.move}:{work.event_id}.{migrated.part}:{migrated.node}"


def _tell_move(work: FrameContext, interest: Interest) -> None:
    """Starts the move of a node: from here on this partition's deliveries go to its new edge.

    They go behind what the old edge owes of the partition.
    """
    old_edge, move = SessionId.parse(interest.left).edge, interest.position.event_id
    node, edge = interest.subscriber, interest.edge
    give = MigrationStep(work.next_position(old_edge), MigrationPhase.GIVE, node, move, edge, interest.left)
    work.tell(old_edge, give)
    work.tell(edge, MigrationStep(work.next_position(edge), MigrationPhase.EXPECT, node, move))


def _left_session(interest: Interest, edge: str, position: FramePosition) -> str:
    """The session at another edge that its node comes from. A repeat, to which the interest stands as the first time
    has left it, says what was said then."""
    if interest.edge != edge:
        return session_id(interest.edge, interest.epoch, interest.session)
    return interest.left if interest.position == position else ""


def _session(work: FrameContext) -> tuple[str, int, int]:
    source = work.raw.source
    return source.edge, source.epoch, source.session

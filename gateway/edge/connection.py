"""A connection joins one peer's sans-IO session, the raw log and the carrier of its bytes.

    carrier ──receive──► session ──FramesReceived──► raw log ──logged──► session ──► carrier
    mesh ──► outbox ──deliver──► session ──► carrier   session ──Delivered──► outbox ──► mesh

Invariants
1. A session opens and closes in the raw log, in order with its own frames.
2. While we do not read, for our own reasons, the peer is not blamed for its silence.
3. A peer that reads nothing is not read either, once what waits for it is twice its queue: so its own requests, pings
   and frames cannot make us hold answers without end.
4. A peer that has closed its half hears what it is owed: acknowledgements, and the answers to its requests or their
   timeouts. Until then it is not blamed for its silence, but for `idle_seconds`; and it is asked nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gateway.config import Limits
from gateway.core.event import Auth
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.reasons import Reason
from gateway.edge.admission import Admission
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.carriers.peer import Peer, PeerIdentity
from gateway.edge.carriers.read_control import PauseReason, ReadGate
from gateway.edge.metrics import ListenerMetrics
from gateway.edge.outbox import Outbox
from gateway.edge.session_log import SessionLog
from gateway.edge.session_terms import SessionTerms
from gateway.edge.session_timer import SessionTimer
from gateway.edge.stream_reading import StreamReading
from gateway.protocols.actions import (
    OUR_ENDS,
    AbandonRequests,
    Action,
    CloseReason,
    Delivered,
    Delivery,
    DropRequest,
    FrameRefused,
    FramesReceived,
    Identified,
    LoginAsked,
    Opened,
    RequestEnded,
    Terminated,
)
from gateway.protocols.session import Session
from gateway.protocols.spec import Options
from gateway.records.raw_log.control_frames import SessionOpened
from gateway.records.raw_log.frames import FrameSource

if TYPE_CHECKING:
    from gateway.edge.sessions import Sessions

log = logging.getLogger(__name__)
_faults = RateLimitedFaultLog(log)

LEAVE_SECONDS = 5.0
"""The time for what a protocol still waits for after its goodbye (acknowledgements that are owed)."""


class Connection:
    """Reads one peer for its session, and does what the session asks for. Its `outbox` takes what goes to the peer."""

    def __init__(
        self,
        sessions: Sessions,
        session: Session,
        carrier: Carrier,
        peer: Peer,
        terms: SessionTerms,
        metrics: ListenerMetrics,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sessions = sessions
        self.session = session
        self._carrier = carrier
        self.terms = terms
        self._metrics = metrics
        self.number = 0
        edge_life = sessions.publisher.life
        source = FrameSource(
            session.protocol, terms.listener, edge_life.edge, edge_life.epoch, 0, peer.address, peer.node, peer.auth
        )
        self.session_log = SessionLog(sessions.publisher, source)
        self.connected_at = time.time()
        self.received_frames = 0
        self.end: Terminated | None = None
        self._own_end: Terminated | None = None
        self._unlogged = 0
        self._timer = SessionTimer(self._look_at_time)
        self._pump_is_due = False
        self.outbox = Outbox(
            session,
            self.session_log,
            carrier,
            sessions.memory,
            pump_soon=self._pump_soon,
            on_delivered=partial(sessions.deliveries.delivered, self),
            on_fault=partial(self._give_up, CloseReason.INTERNAL, "a delivery could not be handled"),
        )
        self._admission = Admission(self.leave, peer.proofs, must_log_in=terms.require_login)
        self.gate = ReadGate(carrier.pause_reading, carrier.resume_reading)
        self._has_heard = self._is_at_eof = False
        self._buffered = 0
        self._progress_at = self._loop.time()
        self.reading = StreamReading(
            session, self.gate, sessions.reads, self._has_more, self._go_on, metrics.throttled_seconds.inc
        )
        self.reconfigure(terms.limits)

    @property
    def source(self) -> FrameSource:
        return self.session_log.source

    def reconfigure(self, limits: Limits) -> None:
        """Puts new limits into force."""
        self.terms = replace(self.terms, limits=limits)
        self.reading.reconfigure(limits)
        self.outbox.reconfigure(limits.queue_bytes)

    # -- from the carrier --------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.end is not None:  # turned away at the door
            return
        self.session.start(self._loop.time())
        if self._sessions.publisher.in_flight.is_full:
            self.hold()
        self.pump()

    def receive(self, data: bytes | memoryview, now: float) -> None:
        self._metrics.received_bytes.inc(len(data))
        self._sessions.memory.count(len(data))
        self._has_heard = True
        self.reading.spending.bytes += len(data)
        self.reading.receive(data, now)
        buffered = self.session.buffered_bytes
        if buffered < self._buffered + len(data):  # something whole was in it
            self._progress_at = now
        self._buffered = buffered
        self.pump()

    def count_kept(self, size: int) -> None:
        """Hears that the carrier keeps so many bytes more, of which the session knows nothing yet."""
        self._sessions.memory.count(size)

    def _has_more(self) -> bool:
        return self.session.has_more or self._carrier.has_more

    def _go_on(self) -> None:
        """Takes more of what was read: of what the session holds back first, because that came first."""
        if self.session.has_more:
            self.receive(b"", self._loop.time())
        else:
            self._carrier.go_on(self._loop.time())
        if self._is_at_eof and not self.session.has_more:
            self.receive_eof()

    def receive_eof(self) -> None:
        """Ends the session, once it has taken what came before by turns, as ever."""
        if self.session.has_more and self._own_end is None:
            self._is_at_eof = True
            return
        self.session.receive_eof()
        self.pump()

    @property
    def has_pending_replies(self) -> bool:
        """True while a half-closed peer must still be sent an acknowledgement or an answer. Links reconnect instead."""
        asks = self.session.open_requests > 0 and not self.session.settings.dialled
        return self.end is None and (self._unlogged > 0 or asks)

    def begin_half_close(self) -> None:
        """Notes that the peer has closed its half and only waits for what it is still owed."""
        self.session.half_closed = True

    def ping_peer(self) -> None:
        self.session.probe(self._loop.time())
        self.pump()

    def fail(self, reason: str, detail: str) -> None:
        """Ends the session because the transport cannot go on."""
        self._own_end = self._own_end or Terminated(reason, detail)
        self.receive_eof()

    def _give_up(self, why: CloseReason, detail: str) -> None:
        """Says goodbye, unless that was said, and waits for nothing."""
        if self.end is None and self._own_end is None:
            self.session.drain(self._loop.time(), None, why)
        self.fail(why, detail)

    # -- from the mesh -----------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Stops reading: the raw log takes no more at present."""
        self.gate.hold(PauseReason.LOG_FULL)

    def release(self) -> None:
        self.session.extend_pong_deadline(self._loop.time())
        self.gate.release(PauseReason.LOG_FULL)

    @property
    def held_bytes(self) -> int:
        return self.outbox.held_bytes

    @property
    def is_over(self) -> bool:
        return self.session.closed

    @property
    def ended_by_peer(self) -> bool:
        """True if the session is over and we did not end it."""
        return self.end is not None and self.end.reason not in OUR_ENDS

    def ping_if_silent(self) -> bool:
        """Returns True if the peer has said anything yet. If not, the edge asks it for a sign of life."""
        if not self._has_heard:
            self.ping_peer()
        return self._has_heard

    @property
    def is_quiet(self) -> bool:
        """True while nothing is under way that the peer or the mesh would miss."""
        return not (self.outbox.pending or self.session.open_requests or self.session.open_served)

    @property
    def is_confidential(self) -> bool:
        """True if nobody between the peer and us can read what is said."""
        return self._carrier.is_confidential

    def identify(self, identity: PeerIdentity) -> None:
        """Takes the identity that the peer has proven. Its subscriptions are judged again as that node's."""
        self._admission.proven(identity)
        self._opened(replace(self.source, node=identity.node, auth=Auth.SESSION))

    def judge_again(self, options: Options, *, require_login: bool) -> None:
        """Ends the session if its peer would not be let in now as what it is."""
        if not (self._admission.is_still_proven() and self.session.is_still_proven(options)):
            self.leave(CloseReason.REVOKED)
        elif require_login and self.number and self.source.auth is Auth.NONE:
            self.leave(CloseReason.LOGIN_REQUIRED)

    def refuse_login(self) -> None:
        self._metrics.refused(Reason.UNAUTHENTICATED)
        self._admission.login_refused()

    def answer(self, delivery: Delivery) -> None:
        """Answers a request of the peer that was for the edge itself: nobody else hears what becomes of it."""
        self.session.deliver(delivery, self._loop.time())
        self._pump_soon()

    def leave(self, why: CloseReason, redirect_url: str | None = None, *, seconds: float = LEAVE_SECONDS) -> None:
        """Says goodbye in the protocol's own words."""
        if self.end is not None or self._own_end is not None:
            return
        self._own_end = Terminated(why)
        self.session.drain(self._loop.time(), redirect_url, why)
        self.pump()
        if self.end is None:
            self._loop.call_later(seconds, self.receive_eof)

    def abort(self) -> None:
        """Closes the transport at once, without a goodbye."""
        self._carrier.abort()

    def cut(self) -> None:
        """Frees at once what is held for a session that holds too much of the edge's memory."""
        held_bytes = self.held_bytes
        self.abort()  # first, or what waits would be handed to the transport
        self.fail(CloseReason.OVER_BUDGET, f"{held_bytes} bytes were held for it")

    # -- what the session wants --------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self.pump)

    def pump(self) -> None:
        """Does what the session has asked for since the last time."""
        self._pump_is_due = False
        for action in self.session.actions():
            self._act(action)
        self.outbox.flush()
        if self.end is not None:
            self._carrier.close(self.end.reason)
        elif self.session.half_closed and not self.has_pending_replies:
            self.receive_eof()
        else:
            due = self._progress_at + self.terms.limits.idle_seconds
            session_deadline = self.session.get_timer()
            self._timer.look_by(due if session_deadline is None else min(due, session_deadline))

    def _act(self, action: Action) -> None:
        match action:
            case FramesReceived():
                self._log(action)
            case Delivered():
                self.outbox.end(action)
            case Opened(facts):
                self._opened(replace(self.source, facts=self.terms.facts(facts, dialled=self.session.settings.dialled)))
            case Identified(node):
                self.identify(PeerIdentity(node))
            case LoginAsked():
                self._sessions.log_in(self, action)
            case FrameRefused(reason, _):
                self.reading.spending.frames += 1
                self._metrics.refused(reason)
            case RequestEnded(outcome):
                self._metrics.request_ended(outcome)
            case AbandonRequests(replies, error):
                self.session_log.abandon(replies, error)
            case DropRequest(request, subject):
                self.session_log.drop_request(request, subject)
            case Terminated():
                self._terminated(self._own_end or action)

    def _log(self, received: FramesReceived) -> None:
        now, count = self._loop.time(), len(received.lengths)
        self.received_frames += count
        self.reading.spending.frames += count
        self._metrics.received_frames.inc(count)
        if not self.number:  # held back until somebody is proven, and so is nobody's frame
            self._metrics.rejected(Reason.UNAUTHENTICATED, count)
            self.leave(CloseReason.LOGIN_REQUIRED)
            return
        self._unlogged += received.tag is not None
        self.session_log.add_frames(received, partial(self._settled, received.tag, count, now))

    def _settled(self, tag: int | None, count: int, received_at: float, accepted: bool) -> None:
        """The frames are on all in-sync replicas; or Kafka will never take them."""
        now = self._loop.time()
        self._unlogged -= tag is not None
        if not accepted:
            self._metrics.rejected(Reason.INTERNAL, count)
            self._give_up(CloseReason.NOT_LOGGED, "Kafka refused what the peer sent")
            return
        self._metrics.accepted(count, now - received_at)
        if tag is not None:
            self.session.logged(tag, now)
            self.pump()

    def _opened(self, source: FrameSource) -> None:
        self.session_log.source = source
        if self._admission.lacks_login(source.node):
            self._admission.wait_for_login(self.terms.limits.handshake_seconds)
            return
        again = self.number != 0
        if not again:
            self.number = self._sessions.opened(self)
            self._carrier.standing.opened()
            self.session_log.take_number(self.number)
        terms = self.terms
        self.session_log.open(SessionOpened(self.session.protocol, terms.subscribe, terms.serve, again))
        if not again:
            self._sessions.deliveries.opened(self)

    def _terminated(self, end: Terminated) -> None:
        self.end = end
        self._admission.ended()
        self._timer.cancel()
        if self.number:
            self.session_log.close(end.reason)
        self._metrics.session_ended(end.reason)
        self._carrier.standing.ended(end.reason)
        self._sessions.ended(self, end)

    # -- time --------------------------------------------------------------------------------------------------

    def _look_at_time(self) -> None:
        now = self._loop.time()
        if self.gate.is_ours or self.session.half_closed:
            self.session.extend_pong_deadline(now)
        if self.gate.is_ours:
            self._progress_at = now
        elif now >= self._progress_at + self.terms.limits.idle_seconds:
            self._progress_at = now
            if not self._carrier.is_present:
                self.leave(CloseReason.IDLE)
        self.session.handle_timer(now)
        self.pump()

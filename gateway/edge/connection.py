"""One peer's connection: its sans-IO session on one side, the raw log on the other, a carrier for the bytes.

    carrier ──receive──► session ──FramesReceived──► raw log ──logged──► session ──► carrier
    mesh ──deliver──► session ──► carrier            session ──Delivered──► mesh

It is long, for it is one state: whatever ends, holds or fills a connection bears on all else of it.

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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from gateway.config import Limits
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.carriers.peer import Peer
from gateway.edge.carriers.reading import Gate, Hold, TokenBucket
from gateway.edge.metrics import ListenerMetrics
from gateway.edge.publisher import RawPublisher
from gateway.event import Auth, Kind
from gateway.faults import Faults
from gateway.protocols.actions import (
    REACHED,
    Action,
    Delivered,
    Delivery,
    Farewell,
    FrameRefused,
    FramesReceived,
    Identified,
    Opened,
    Outcome,
    RequestDropped,
    RequestEnded,
    RequestsAbandoned,
    Terminated,
)
from gateway.protocols.session import Session
from gateway.raw_log import mesh_frames
from gateway.raw_log.frames import LINK_FACT, REDELIVER_FACT, Facts, ReplyAddress, Source, session_id
from gateway.raw_log.mesh_frames import MESH, SessionClosed, SessionOpened
from gateway.reasons import MeshError, Reason

log = logging.getLogger(__name__)
_faults = Faults(log)

LEAVE_SECONDS = 5.0
"""For what a protocol still waits for after its goodbye (acknowledgements that are owed)."""
REPLIES_PER_FRAME = 1_000
"""Abandoned requests that one frame of the mesh names: a session may have 65,536, and a record must hold the frame."""

VERDICTS = frozenset(Reason) - {Reason.TIMEOUT, Reason.OVERLOAD}
"""What ends a session by its name is the verdict on a frame, and counts as one refused; all else is not."""

OUR_ENDS = frozenset(Farewell) - {Farewell.INTERNAL}
"""Why a session ends that has nothing to do with what its peer was sent."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for the sessions of a listener or link. `redeliver_seconds`: only where the node is proven."""

    listener: str
    limits: Limits
    subscribe: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    redeliver_seconds: int = 0


class Mesh(Protocol):
    """The edge as its connections see it."""

    edge: str
    epoch: int
    publisher: RawPublisher

    def opened(self, connection: Connection) -> int:
        """Takes it in; gives it its number."""

    def known(self, connection: Connection) -> None:
        """Its opening has been logged: it may be given deliveries."""

    def ended(self, connection: Connection) -> None: ...
    def delivered(self, connection: Connection, end: Delivered) -> None: ...


class Connection:
    def __init__(
        self, mesh: Mesh, session: Session, carrier: Carrier, peer: Peer, terms: Terms, metrics: ListenerMetrics
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._mesh = mesh
        self.session = session
        self._carrier = carrier
        self.terms = terms
        self._metrics = metrics
        self.number = 0
        self.source = Source(session.protocol, terms.listener, mesh.edge, mesh.epoch, 0, *_named(peer))
        self.connected_at = time.time()
        self.received_frames = 0
        self.delivered_frames = 0
        self.pending = 0
        self.end: Terminated | None = None
        self._override: Terminated | None = None
        self._partition = 0
        self._unlogged = 0
        self._timer: asyncio.TimerHandle | None = None
        self._pump_is_due = False
        self._unsent_bytes = 0
        self._gate = Gate(carrier.pause_reading, carrier.resume_reading)
        self._has_heard = False
        self._buffered = 0
        self._progress_at = self._loop.time()
        self.use(terms.limits)

    def use(self, limits: Limits) -> None:
        """Limits that hold from now on."""
        self.terms = replace(self.terms, limits=limits)
        rate = limits.frames_per_second_per_session
        self._bucket = TokenBucket(rate, self._loop.time()) if rate else None
        self._carrier.limit_writes(2 * limits.queue_bytes, limits.queue_bytes)

    # -- from the carrier --------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.end is not None:  # turned away at the door
            return
        self.session.start(self._loop.time())
        if self._mesh.publisher.is_full:
            self.hold()
        self.pump()

    def receive(self, data: bytes | memoryview, now: float) -> None:
        self._metrics.received_bytes.inc(len(data))
        self._has_heard = True
        self.session.receive(data, now)
        buffered = self.session.buffered_bytes
        if buffered < self._buffered + len(data):  # something whole was in it
            self._progress_at = now
        self._buffered = buffered
        self.pump()

    def receive_eof(self) -> None:
        self.session.receive_eof()
        self.pump()

    @property
    def owes_word(self) -> bool:
        """The peer will hear of frames that are on their way to Kafka, or of requests of its own. Whom we have dialled
        is dialled again instead: a server does not go on to listen."""
        asks = self.session.open_requests > 0 and not self.session.settings.dialled
        return self.end is None and (self._unlogged > 0 or asks)

    def end_when_told(self) -> None:
        """The peer has said all it had to say, and waits to hear what comes of it."""
        self.session.half_closed = True

    def ask_for_life(self) -> None:
        self.session.probe(self._loop.time())
        self.pump()

    def fail(self, reason: str, detail: str) -> None:
        """The transport cannot go on with this connection."""
        self._override = self._override or Terminated(reason, detail)
        self.receive_eof()

    def _give_up(self, why: Farewell, detail: str) -> None:
        """Says goodbye, unless that was said, and waits for nothing."""
        if self.end is None and self._override is None:
            self.session.drain(self._loop.time(), None, why)
        self.fail(why, detail)

    def peer_reads_not(self) -> None:
        self._gate.hold(Hold.UNREAD)

    def peer_reads_again(self) -> None:
        self._gate.release(Hold.UNREAD)

    # -- from the mesh -----------------------------------------------------------------------------------------

    def hold(self) -> None:
        """The raw log takes no more at present."""
        self._gate.hold(Hold.LOG_FULL)

    def release(self) -> None:
        self.session.excuse_silence(self._loop.time())
        self._gate.release(Hold.LOG_FULL)

    @property
    def queued_bytes(self) -> int:
        return self._carrier.queued_bytes() + self._unsent_bytes

    @property
    def is_over(self) -> bool:
        return self.session.closed

    @property
    def was_lost(self) -> bool:
        """It is over, and not because we wanted it to be."""
        return self.end is not None and self.end.reason not in OUR_ENDS

    def answers(self) -> bool:
        """Whether the peer has said anything yet. If not, it is asked for a sign of life."""
        if not self._has_heard:
            self.ask_for_life()
        return self._has_heard

    @property
    def is_quiet(self) -> bool:
        """Nothing is under way that the peer or the mesh would miss."""
        return not (self.pending or self.session.open_requests or self.session.open_served)

    def deliver(self, delivery: Delivery) -> None:
        """Written at the end of this turn of the loop, with all else that is delivered in it."""
        self.pending += 1
        full = not self._has_room()
        if full or (self.session.half_closed and delivery.kind is Kind.REQUEST):
            if delivery.kind is Kind.REQUEST and delivery.reply is not None:
                self._abandon((delivery.reply,), MeshError.UNDELIVERABLE)
            why = "the peer reads too slowly" if full else "the peer answers no more"
            self._delivered(Delivered(delivery, Outcome.UNDELIVERABLE, why))
            return
        self._unsent_bytes += len(delivery.frame)
        try:
            self.session.deliver(delivery, self._loop.time())
        except Exception:
            _faults.tell(f"while delivering to a session of {self.session.protocol}")
            self._delivered(Delivered(delivery, Outcome.UNDELIVERABLE, "internal error", refused=True))
            self._give_up(Farewell.INTERNAL, "a delivery could not be handled")
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self.pump)

    def write_run(self, frames: Sequence[bytes], size: int) -> bool:
        """Takes events that need nothing of this connection, for the next `flush`. `size` is that of all frames.

        Returns False, and does nothing, where each must go through `deliver`.
        """
        if not self._has_room(size) or not self.session.write_events(frames):
            return False
        self._unsent_bytes += size
        self.delivered_frames += len(frames)
        return True

    def _has_room(self, size: int = 0) -> bool:
        """Whether so much more may wait for the peer. What was not yet written to it does not show that it is slow."""
        limit = self.terms.limits.queue_bytes
        if self._unsent_bytes and self.queued_bytes + size > limit:
            self.flush()
        return self.queued_bytes + size <= limit

    def flush(self) -> None:
        """Writes what the session has to say, and nothing else that `pump` does."""
        self._unsent_bytes = 0
        if messages := self.session.data_to_send():
            self._carrier.write(messages)

    def leave(self, why: Farewell, redirect_url: str | None = None, *, seconds: float = LEAVE_SECONDS) -> None:
        """Says goodbye in the protocol's own words."""
        if self.end is not None or self._override is not None:
            return
        self._override = Terminated(why)
        self.session.drain(self._loop.time(), redirect_url, why)
        self.pump()
        if self.end is None:
            self._loop.call_later(seconds, self.receive_eof)

    def abort(self) -> None:
        """No goodbye."""
        self._carrier.abort()

    def describe(self) -> dict[str, Any]:
        source = self.source
        return {
            "session": source.session_id,
            "protocol": source.protocol,
            "listener": source.listener,
            "peer": source.peer,
            "node": source.node,
            "auth": source.auth.value,
            "dialled": self.session.settings.dialled,
            "connected_at": self.connected_at,
            "received_frames": self.received_frames,
            "delivered_frames": self.delivered_frames,
            "queue_bytes": self.queued_bytes,
            "pending_deliveries": self.pending,
            "open_requests": self.session.open_requests,
            "served_requests": self.session.open_served,
        }

    # -- what the session wants --------------------------------------------------------------------------------

    def pump(self) -> None:
        """Does what the session has asked for since the last time."""
        self._pump_is_due = False
        for action in self.session.actions():
            self._act(action)
        self.flush()
        if self.end is not None:
            self._carrier.close(self.end.reason)
        elif self.session.half_closed and not self.owes_word:
            self.receive_eof()
        else:
            self._set_timer()

    def _act(self, action: Action) -> None:
        match action:
            case FramesReceived():
                self._log(action)
            case Delivered():
                self._delivered(action)
            case Opened(facts):
                self._opened(replace(self.source, facts=self._facts(facts)))
            case Identified(node):
                self._opened(replace(self.source, node=node, auth=Auth.SESSION))
            case FrameRefused(reason, _):
                self._metrics.refused(reason)
            case RequestEnded(outcome):
                self._metrics.request_ended(outcome)
            case RequestsAbandoned(replies, error):
                self._abandon(replies, error)
            case RequestDropped(request, subject):
                self.drop(self._reply_to(request, subject))
            case Terminated():
                self._terminated(self._override or action)

    def _log(self, received: FramesReceived) -> None:
        now, count = self._loop.time(), len(received.lengths)
        self.received_frames += count
        self._metrics.received_frames.inc(count)
        settled = partial(self._settled, received.tag, count, now)
        self._unlogged += received.tag is not None
        self._mesh.publisher.add_run(
            self._partition, self.source, received.data, received.lengths, replies=received.replies, settled=settled
        )
        if self._bucket is not None and (seconds := self._bucket.take(count, now)):
            self._gate.hold(Hold.RATE)
            self._loop.call_later(seconds, self._gate.release, Hold.RATE)

    def _settled(self, tag: int | None, count: int, received_at: float, accepted: bool) -> None:
        """The frames are on all in-sync replicas; or Kafka will never take them."""
        now = self._loop.time()
        self._unlogged -= tag is not None
        if not accepted:
            self._metrics.rejected(Reason.INTERNAL, count)
            self._give_up(Farewell.NOT_LOGGED, "Kafka refused what the peer sent")
            return
        self._metrics.accepted(count, now - received_at)
        if tag is not None:
            self.session.logged(tag, now)
            self.pump()

    def _delivered(self, end: Delivered) -> None:
        self.pending -= 1
        self.delivered_frames += end.outcome in REACHED
        self._mesh.delivered(self, end)

    def _facts(self, negotiated: Facts) -> Facts:
        """With what the router must know of this session beside."""
        facts = dict(negotiated)
        if self.session.settings.dialled:
            facts[LINK_FACT] = True
        if self.terms.redeliver_seconds:
            facts[REDELIVER_FACT] = self.terms.redeliver_seconds
        return facts

    def _opened(self, source: Source) -> None:
        again = self.number != 0
        if not again:
            self.number = self._mesh.opened(self)
            self._carrier.standing.opened()
            name = session_id(source.edge, source.epoch, self.number)
            source = replace(source, session=self.number, node=source.node or f"anon:{source.edge}:{name}")
            self._partition = self._mesh.publisher.partition_of(source.node.encode())
        self.source = source
        terms = self.terms
        said = SessionOpened(self.session.protocol, terms.subscribe, terms.serve, again)
        self._mesh_frame(mesh_frames.encode(said))
        if not again:
            self._mesh.known(self)

    def _terminated(self, end: Terminated) -> None:
        self.end = end
        if self._timer is not None:
            self._timer.cancel()
        if self.number:
            closed = SessionClosed(self.session.protocol, end.reason)
            self._mesh_frame(mesh_frames.encode(closed))
        if end.reason in VERDICTS:
            self._metrics.refused(end.reason)
        self._carrier.standing.ended(end.reason)
        self._mesh.ended(self)
        said = {"listener": self.source.listener, "session": self.number, "peer": self.source.peer}
        level = logging.INFO if self.number else logging.DEBUG  # who never had a session may come in thousands
        log.log(level, "session closed", extra=said | {"reason": end.reason, "detail": end.detail})

    def _abandon(self, replies: tuple[ReplyAddress, ...], error: MeshError) -> None:
        frame = mesh_frames.encode(mesh_frames.RequestsAbandoned(error))
        for at in range(0, len(replies), REPLIES_PER_FRAME):
            self._mesh_frame(frame, replies[at : at + REPLIES_PER_FRAME])

    def drop(self, reply: ReplyAddress) -> None:
        """Nobody waits for the answer to this request any more."""
        self._mesh_frame(mesh_frames.encode(mesh_frames.RequestDropped()), (reply,))

    def _reply_to(self, request: str, subject: str) -> ReplyAddress:
        source = self.source
        where = source.protocol, source.listener, source.edge, source.epoch, source.session
        return ReplyAddress(*where, request, subject, facts=source.facts)

    def _mesh_frame(self, frame: bytes, replies: tuple[ReplyAddress, ...] = ()) -> None:
        """About this session, in order with its frames."""
        source = replace(self.source, protocol=MESH)
        self._mesh.publisher.add_run(self._partition, source, frame, (len(frame),), replies=replies)

    # -- time --------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Keeps the earliest timer that was ever needed; one that comes too early only looks and sets the next."""
        due = self._progress_at + self.terms.limits.idle_seconds
        wanted = self.session.get_timer()
        if wanted is not None and wanted < due:
            due = wanted
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._gate.is_ours or self.session.half_closed:
            self.session.excuse_silence(now)
        if self._gate.is_ours:
            self._progress_at = now
        elif now >= self._progress_at + self.terms.limits.idle_seconds:
            self._progress_at = now
            if not self._carrier.is_present:
                self.leave(Farewell.IDLE)
        self.session.handle_timer(now)
        self.pump()


def _named(peer: Peer) -> tuple[str, str, Auth]:
    return peer.address, peer.node, peer.auth

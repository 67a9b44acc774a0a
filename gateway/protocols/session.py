"""The sans-IO session that every stream protocol extends.

A session turns received bytes into *actions* and deliveries into bytes to send. It holds no socket, no clock and no
randomness: `now` is an argument (seconds, monotonic), random bytes come from `settings.token`.

    receive(data, now) ──► FramesReceived, Opened, ...      ──► the edge logs, and calls logged(tag) once Kafka has it
    deliver(delivery, now) ──► data_to_send(), Delivered    ──► the edge writes, and records the outcome

Invariants
1. Peer input never raises out of a session: it becomes `Terminated(reason)`, or `FrameRefused` where the stream
   can go on.
2. After `Terminated` the session takes nothing more; what `data_to_send` still holds is sent before the socket closes.
3. Every delivery ends in exactly one `Delivered`, also when the session ends first.
4. Every request of the peer is answered at most once; what of them is open when the session ends is reported in a
   `DropRequest` each; every request delivered to the peer that is open then is reported in one `AbandonRequests`.
5. A limit is tested when the length is read, before anything is buffered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from gateway.core.errors import place_of
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.subjects import is_control
from gateway.protocols.actions import (
    AbandonRequests,
    Action,
    CloseReason,
    Delivered,
    Delivery,
    DropRequest,
    FrameRefused,
    LoginAsked,
    Opened,
    Outcome,
    RequestEnded,
    Terminated,
)
from gateway.protocols.open_requests import OpenRequests, ServedRequests
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.timers import Timers
from gateway.records.raw_log.frames import NO_FACTS, Facts, ReplyAddress

FRAME_EFFORT = 512
"""Looking at a frame takes as long as parsing so many bytes of JSON: some eight microseconds."""
INFLATED_BYTES_OF_EFFORT = 8
"""So many bytes are made of gzip in the time of one byte of JSON."""
TIMED_OUT = "timeout"
"""The end of a peer's request that nobody answered in time."""


@dataclass(slots=True)
class PeerRequest:
    """An open request of the peer."""

    deadline: float
    subject: str
    progressive: bool = True


class Session(ABC):
    """The base of every session: the buffer, the outputs, keepalive, and the two tables of open requests.

    A protocol implements the abstract methods, calls `_act`, `_send` and `_open`, raises Rejected where the stream is
    broken, and chooses the ids of requests delivered to the peer: a number, a uid, whatever its answers carry.

    `may_publish`: whether the permissions in force let the peer publish on a subject, for what is answered before the
    router judges it; None where there are none. They may change while the session stands. `half_closed`: the peer says
    no more and waits for what it is owed, or has gone altogether, which looks the same. `control_frames`: how many
    frames to the mesh itself have come since somebody last set it to 0. `has_more`: what has come already waits for the
    next `receive`.
    """

    protocol: ClassVar[str]
    max_open_requests: ClassVar[int] = 65_536

    def __init__(self, settings: SessionSettings) -> None:
        self.settings = settings
        self.control_frames = 0
        self.may_publish: Callable[[str], bool] | None = None
        self.closed = False
        self.opened = False
        self.half_closed = False
        self.has_more = False
        self._slice_effort = inf if settings.slice_effort is None else settings.slice_effort
        self._effort = self._slice_effort
        self._buffer = bytearray()
        self._out: list[bytes] = []
        self._actions: list[Action] = []
        self.timers = Timers()
        self._peer_requests: OpenRequests[str, PeerRequest] = OpenRequests(settings.request_budget)
        self._served_requests = ServedRequests(settings.request_budget)
        self._waiting_pong = False

    # -- inputs ------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Starts the session. Called once, first, when the connection stands (TLS and PROXY included)."""
        self.timers.set("handshake", now + self.settings.handshake_seconds)
        self._started(now)

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Handles the frames that are whole now, or as many as one slice of effort allows: `has_more` is true then."""
        self.has_more = False
        if self.closed:
            return
        self._buffer += data
        self._effort = self._slice_effort
        try:
            used = self._parse(self._buffer, now)
        except Rejected as refused:
            self._end_broken(refused, now)
            return
        except Exception as fault:
            # A fault of ours must not take other sessions with it, nor may the peer try it again on this one.
            self._terminate(Reason.INTERNAL, place_of(fault))
            return
        if self.closed:
            self.has_more = False
        else:
            del self._buffer[:used]
            if self.opened and not self._waiting_pong:
                self.timers.set("ping", now + self.settings.ping_seconds)

    def hold_back(self, data: bytes | memoryview) -> None:
        """Keeps what has come for the next `receive`."""
        if not self.closed:
            self._buffer += data
            self.has_more = True

    def receive_eof(self) -> None:
        self._terminate(Reason.TRUNCATED if self._buffer else "eof")

    def handle_timer(self, now: float) -> None:
        for name in self.timers.expired(now):
            if self.closed:
                return
            if name == "handshake":
                self._end_broken(Rejected(Reason.TIMEOUT, "no handshake in time", can_continue=False), now)
            elif name == "ping":
                self.probe(now)
            elif name == "pong":
                self._end_broken(Rejected(Reason.TIMEOUT, "no pong in time", can_continue=False), now)
            elif isinstance(name, tuple) and name[0] == "request":
                self._time_out(name[1], now)
            else:
                self._timer(name, now)

    def probe(self, now: float) -> None:
        """Asks the peer for a sign of life, unless it is asked already."""
        if self.opened and not self.closed and not self._waiting_pong:
            self._waiting_pong = True
            self.timers.clear("ping")
            self.timers.set("pong", now + self.settings.pong_timeout_seconds)
            self._ping(now)

    def extend_pong_deadline(self, now: float) -> None:
        """Gives the pong its full time again, because the peer was not read for a while, for reasons of ours."""
        if self._waiting_pong and not self.closed:
            self.timers.set("pong", now + self.settings.pong_timeout_seconds)

    @abstractmethod
    def logged(self, tag: int, now: float) -> None:
        """Notes that the frames with this tag are on all in-sync replicas."""

    @abstractmethod
    def deliver(self, delivery: Delivery, now: float) -> None:
        """Sends what the router wrote. It must end in one `Delivered` sooner or later."""

    def write_events(self, frames: Sequence[bytes]) -> bool:
        """Writes the frames of events that have no stamps, which is the end of their delivery.

        Returns False, and does nothing, where a delivery takes more than that: then each goes through `deliver`.
        """
        if not self._writes_events_as_they_are():
            return False
        self._out += filter(None, frames)
        return True

    @abstractmethod
    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        """Says goodbye in the protocol's own words, and ends: at once, or when what is logged has been acknowledged.

        Also of a session that was never started: the peer is turned away.
        """

    @abstractmethod
    def reconfigure(self, options: Any) -> None:
        """Puts the protocol's own options into force, as the router does.

        What the two sides have agreed on or proven stays, and so do the times of its keepalive.
        """

    def is_still_proven(self, options: Any) -> bool:  # noqa: ARG002 - most protocols have no login of their own
        """True if what the peer has proven by its protocol's own login would be taken under these options too."""
        return True

    # -- outputs -----------------------------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    def actions(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions

    def get_timer(self) -> float | None:
        return self.timers.next()

    @property
    def buffered_bytes(self) -> int:
        """The bytes that were received and are no whole frame yet."""
        return len(self._buffer)

    @property
    def held_bytes(self) -> int:
        """The bytes kept in memory for this session, apart from what waits to be written."""
        return len(self._buffer)

    @property
    def awaits_pong(self) -> bool:
        """True while the peer has been asked for a sign of life and has given none yet."""
        return self._waiting_pong and not self.closed

    @property
    def open_requests(self) -> int:
        """Requests of the peer that wait for their answers."""
        return len(self._peer_requests)

    @property
    def open_served(self) -> int:
        """Requests delivered to the peer that it has not answered."""
        return len(self._served_requests)

    # -- for the protocols ---------------------------------------------------------------------------------------

    @abstractmethod
    def _started(self, now: float) -> None:
        """Speaks first, if the protocol does."""

    @abstractmethod
    def _parse(self, buffer: bytearray, now: float) -> int:
        """Handles every whole frame in the buffer, returns the bytes used. Raises Rejected when broken."""

    def _end_broken(self, refused: Rejected, now: float) -> None:  # noqa: ARG002 - for protocols that answer in time
        """Ends a stream that cannot go on. A protocol that can say so does it first."""
        self._terminate(str(refused.reason), refused.detail)

    @abstractmethod
    def _ping(self, now: float) -> None:
        """Sends the protocol's keepalive, or nothing if it has none."""

    @abstractmethod
    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        """Tells the peer, in its protocol, that its open request failed."""

    def _writes_events_as_they_are(self) -> bool:
        """True while an event without stamps is delivered by writing its frame, and nothing else."""
        return False

    def _timer(self, name: Hashable, now: float) -> None:  # noqa: B027 - most protocols set no timer
        """Handles a timer that the protocol set itself."""

    def _end_deliveries(self) -> None:  # noqa: B027 - most protocols have nothing left
        """Ends what the protocol itself still holds at the end of a session: unconfirmed deliveries."""

    def _send(self, data: bytes) -> None:
        if data:
            self._out.append(data)

    def _spend(self, effort: int) -> bool:
        """Notes what a frame has cost. Returns True once the slice is used up: what is behind the frame waits."""
        self._effort -= effort
        if self._effort > 0:
            return False
        self.has_more = True
        return True

    def _act(self, action: Action) -> None:
        self._actions.append(action)

    def _open(self, now: float, facts: Facts = NO_FACTS) -> None:
        self.opened = True
        self.timers.clear("handshake")
        self.timers.set("ping", now + self.settings.ping_seconds)
        self._act(Opened(facts))

    def _pong_received(self, now: float) -> None:
        self._waiting_pong = False
        self.timers.clear("pong")
        self.timers.set("ping", now + self.settings.ping_seconds)

    def _terminate(self, reason: str, detail: str = "") -> None:
        if self.closed:
            return
        self.closed = True
        self.has_more = False
        self.timers.clear_all()
        self._buffer.clear()
        self._end_deliveries()
        if self._served_requests:
            self._act(AbandonRequests(tuple(self._served_requests.values())))
            self._served_requests.clear()
        for request, peer_request in self._peer_requests.items():
            self._act(DropRequest(request, peer_request.subject))
        self._peer_requests.clear()
        self._act(Terminated(reason, detail))

    # Requests of the peer: `request` is the peer's own id of it, as text.

    def _open_peer_request(self, request: str, subject: str, now: float, *, progressive: bool = True) -> bool:
        """Opens a request of the peer. Returns False if one with this id is open already, or too many are."""
        self._count_control(subject)
        if request in self._peer_requests or not self._peer_requests.has_room(self.max_open_requests):
            return False
        deadline = now + self.settings.request_timeout_seconds
        self._peer_requests.add(request, PeerRequest(deadline, subject, progressive))
        self.timers.set(("request", request), deadline)
        return True

    def _ask_for_login(self, request: str, frame: bytes) -> None:
        """Hands an open request on `mesh.login` to the edge. What the peer sent before it has been reported already."""
        self._act(LoginAsked(request, frame))

    def _refuse_token(self) -> None:
        """Counts a frame on `mesh.login` that is no request. Its body may be a token, so it must reach no log."""
        self._act(FrameRefused(Reason.FORBIDDEN, "a token is sent in a request"))

    def _count_control(self, subject: str) -> None:
        if is_control(subject):
            self.control_frames += 1

    def _open_request_to_cancel(self, request: str) -> str | None:
        """Returns the subject of the open request that a cancel of the peer means; None, counted, if none is open.

        A cancel goes where its request went, whatever subject the peer writes into it.
        """
        peer_request = self._peer_requests.get(request)
        if peer_request is not None:
            return peer_request.subject
        self._act(FrameRefused(Reason.UNDELIVERABLE, "a cancel of no open request"))
        return None

    def _answered(self, delivery: Delivery, now: float) -> bool:
        """Notes an answer to a request of the peer. Returns False if nothing may be written: nobody waits for it."""
        peer_request = self._peer_requests.get(delivery.request)
        if peer_request is None:
            self._act(Delivered(delivery, Outcome.EXPIRED, "nobody waits for this answer"))
            self._act(RequestEnded("late"))
            return False
        if delivery.kind is Kind.PROGRESS:
            peer_request.deadline = now + self.settings.request_timeout_seconds
            self.timers.set(("request", delivery.request), peer_request.deadline)
        else:
            self._end_peer_request(delivery.request, str(delivery.kind))
        return True

    def _end_peer_request(self, request: str, outcome: str) -> None:
        if self._peer_requests.end(request) is not None:
            self.timers.clear(("request", request))
            self._act(RequestEnded(outcome))

    def _time_out(self, request: str, now: float) -> None:
        peer_request = self._peer_requests.get(request)
        if peer_request is not None:
            if self.half_closed:
                self._act(DropRequest(request, peer_request.subject))
            self._answer_error(request, MeshError.TIMEOUT, "no answer in time", now)
            self._end_peer_request(request, TIMED_OUT)

    # Requests delivered to the peer.

    def _open_served_request(self, request_id: Hashable, reply: ReplyAddress) -> Hashable | None:
        """Notes a request that goes to the peer under this id. Returns the id of the oldest one if that was given up,
        because too many are open."""
        given_up = None
        if self._served_requests and not self._served_requests.has_room(self.max_open_requests):
            given_up, oldest = next(iter(self._served_requests.items()))
            self._act(AbandonRequests((oldest,), MeshError.TIMEOUT))
            self._served_requests.end(given_up)
        self._served_requests.add(request_id, reply)
        return given_up

    def served_for(self, edge: str, before_epoch: int) -> tuple[ReplyAddress, ...]:
        """Returns the addresses that wait for answers of this peer, in an edge's lives before this epoch."""
        waiting = self._served_requests.values()
        return tuple(reply for reply in waiting if reply.edge == edge and reply.epoch < before_epoch)

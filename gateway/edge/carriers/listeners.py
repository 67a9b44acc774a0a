"""Listeners of streams: TCP and WebSockets, with TLS or without."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl

from gateway.config import Listener
from gateway.core.errors import SetupError
from gateway.core.event import Auth
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.carriers.peer import Peer
from gateway.edge.carriers.pending_connection import PendingConnection
from gateway.edge.carriers.read_control import ARRIVALS_BURST_SECONDS, TokenBucket
from gateway.edge.carriers.stream import StreamCarrier
from gateway.edge.carriers.tls import TlsContext, proven_by
from gateway.edge.carriers.websocket import UpgradeChecks, WebSocketCarrier, check_of, serving
from gateway.edge.connection import Connection
from gateway.edge.metrics import ConnectionGauge, ListenerMetrics
from gateway.edge.sessions import Sessions
from gateway.protocols import protocols
from gateway.protocols.actions import CloseReason

log = logging.getLogger(__name__)

BACKLOG = 1_024
"""Connections the kernel holds for us; a thousand that arrive in one turn of the loop are not turned away."""
ACCEPTED_AT_ONCE = 16
"""Connections that one turn of the loop takes from the kernel: some six milliseconds of work. All others wait there."""
TURNED_AWAY_AT_ONCE = 64
"""The most connections that are turned away at once. A peer without a place is told so in the protocol's own words.
That takes the listener's TLS and upgrade before it, and a moment after it to read them: little for a few peers, and too
much for all when none is let in."""


class StreamListener:
    """Listens for streams. `listener` and `secured` may be replaced: what is bound stays, new sessions get the new
    policies.

    `places` counts the connections from the first byte of their arrival to the last of their leaving, without those
    that are turned away.
    """

    def __init__(
        self, listener: Listener, sessions: Sessions, tls: TlsContext | None, metrics: ListenerMetrics
    ) -> None:
        self.listener = listener
        self.secured = tls
        self._spec = protocols()[listener.protocol]
        self._sessions = sessions
        self._metrics = metrics
        self.places = 0
        self.waiting: set[PendingConnection] = set()
        limits = sessions.limits(listener.name)
        now = asyncio.get_running_loop().time()
        self._arrivals = TokenBucket(limits.connections_per_second, now, ARRIVALS_BURST_SECONDS)
        self._turned_away: dict[ConnectionGauge, CloseReason] = {}
        self._closed = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def bind(self) -> None:
        """Raises SetupError."""
        address = self.listener.address
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: PendingConnection(self), address.host, address.port, backlog=ACCEPTED_AT_ONCE
            )
        except OSError as error:
            raise SetupError(f"listener {self.listener.name}: cannot listen on {address}: {error.strerror}") from error
        self._let_the_kernel_hold(self._server)
        self._port: int = self._server.sockets[0].getsockname()[1]
        log.info("listening on %s", address.at_port(self._port))

    @staticmethod
    def _let_the_kernel_hold(server: asyncio.Server) -> None:
        """Raises the kernel's backlog, which asyncio has made as small as what a turn of its loop takes."""
        for listening in server.sockets:
            with socket.socket(fileno=os.dup(listening.fileno())) as same:
                same.listen(BACKLOG)

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        """Stops taking new connections. Peers that are connected stay."""
        self._closed = True
        for arrival in list(self.waiting):
            arrival.refuse(CloseReason.DRAIN)
        if self._server is not None:
            self._server.close()

    # -- for arrivals ------------------------------------------------------------------------------------------

    @property
    def proxied(self) -> bool:
        return self.listener.proxy_protocol

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self.secured.context if self.secured is not None else None

    @property
    def handshake_seconds(self) -> float:
        return self._sessions.limits(self.listener.name).handshake_seconds

    def enter(self) -> ConnectionGauge | None:
        standing = ConnectionGauge(self._metrics)
        sessions = self._sessions
        has_place = self.places < sessions.limits(self.listener.name).connections
        if not self._closed and has_place and sessions.places < sessions.most_places:
            self.places += 1
            sessions.places += 1
            return standing
        why = CloseReason.DRAIN if self._closed else CloseReason.OVERLOAD
        standing.ended(why)
        if len(self._turned_away) < TURNED_AWAY_AT_ONCE:
            self._turned_away[standing] = why
            return standing
        standing.gone()
        return None

    def may_connect(self, address: object) -> bool:
        return self.listener.may_connect(str(address[0]) if isinstance(address, tuple) else "")

    def seconds_until_turn(self) -> float | None:
        limits, now = self._sessions.limits(self.listener.name), asyncio.get_running_loop().time()
        self._arrivals.rate = limits.connections_per_second
        return self._arrivals.take_within(limits.handshake_seconds, now)

    def leave(self, standing: ConnectionGauge) -> None:
        if self._turned_away.pop(standing, None) is None:
            self.places -= 1
            self._sessions.places -= 1

    def keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def carrier(self, standing: ConnectionGauge, address: str, deadline: float) -> Carrier:
        if not self.listener.address.is_websocket:
            return StreamCarrier(self, standing, address, deadline)
        text, frame_bytes = self._spec.text_messages, self._sessions.limits(self.listener.name).frame_bytes
        protocol = serving(self._spec.name, frame_bytes, text=text)
        admits = UpgradeChecks(check_of(self.listener), self._sessions.logins)
        return WebSocketCarrier(self, standing, address, deadline, protocol, text=text, admits=admits)

    # -- for carriers ------------------------------------------------------------------------------------------

    def begin(self, carrier: Carrier) -> Connection:
        peer = self._peer(carrier)
        connection = self._sessions.connect(self.listener, carrier, peer)
        if not peer.proofs[0].holds():  # the files have changed while it shook hands
            connection.leave(CloseReason.REVOKED)
        if (why := self._turned_away.get(carrier.standing)) is not None:
            connection.leave(why)
        return connection

    def _peer(self, carrier: Carrier) -> Peer:
        """Returns who it is by its token, else by its certificate, else nobody that is proven."""
        proven = proven_by(carrier.tls, lambda: self.secured)
        if (identity := carrier.identity) is not None:
            return Peer(carrier.address, identity.node, Auth.SESSION, (proven, identity))
        return Peer(carrier.address, proven.node, Auth.TLS if proven.node else Auth.NONE, (proven,))

    def on_closed(self, carrier: Carrier) -> None:
        self.leave(carrier.standing)

"""Links: peers that the edge dials, keeps, and dials again.

    resting ─► dialling ─► [TLS] ─► [WebSocket] ─► a session ─► over ─► resting, longer each time it fails
                  ▲                                        │
                  └──── at once, to where it was sent ─────┘   redirect

A link stands when its session has opened: the protocol's handshake is done, not only TCP's.

The node of a link's peer is what its certificate says, else `link:<name>`: we chose whom we speak to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable
from typing import Any

from pydantic_core import PydanticCustomError

from gateway.config import Link
from gateway.core.address import Address, parse_address
from gateway.core.event import Auth
from gateway.edge.carriers.carrier import LINGER_SECONDS, Carrier
from gateway.edge.carriers.peer import Peer
from gateway.edge.carriers.reachability import Reachability
from gateway.edge.carriers.stream import StreamCarrier
from gateway.edge.carriers.tls import TlsContext, proven_by
from gateway.edge.carriers.websocket import WebSocketCarrier, dialling
from gateway.edge.connection import Connection
from gateway.edge.metrics import ConnectionGauge, ListenerMetrics
from gateway.edge.sessions import Sessions
from gateway.protocols import protocols
from gateway.protocols.actions import CloseReason

log = logging.getLogger(__name__)

FIRST_REST_SECONDS = 0.5
LONGEST_REST_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""A session that stood so long was no failure: the next rest is the first again."""
MAX_REDIRECTS = 5
"""The most redirects in a row. Edges that send a peer round in a circle are left alone for a while."""


class BackOff:
    """Waits twice as long after each failed try, up to a limit.

    The wait lies somewhere in its upper half, so that the peers of one server that was away do not come back all at
    once. `share` gives a number from 0 to 1.
    """

    def __init__(
        self, share: Callable[[], float] = random.random, longest_seconds: float = LONGEST_REST_SECONDS
    ) -> None:
        self._share = share
        self._longest = longest_seconds
        self._next = FIRST_REST_SECONDS

    def rest(self) -> float:
        """Returns the seconds until the next try."""
        seconds, self._next = self._next, min(2 * self._next, self._longest)
        return seconds * (1 + self._share()) / 2

    def stood(self, seconds: float) -> None:
        if seconds >= STEADY_SECONDS:
            self._next = FIRST_REST_SECONDS


class LinkKeeper:
    """Keeps one link until it is stopped."""

    def __init__(self, link: Link, sessions: Sessions, tls: TlsContext | None, metrics: ListenerMetrics) -> None:
        self.link = link
        self.secured = tls
        self.reachability = Reachability(f"link {link.name}")
        self._sessions = sessions
        self._metrics = metrics
        self._spec = protocols()[link.protocol]
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._gone = asyncio.Event()
        self._gone.set()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        """True if the link has no connection, not even one that is closing."""
        return self._gone.is_set()

    def start(self) -> None:
        self._task = self._loop.create_task(self._keep(), name=f"link {self.link.name}")

    def stop(self) -> None:
        """Stops dialling. The session that stands is ended by the caller, or by `leave`."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Ends a link that the configuration no longer has."""
        self.stop()
        if self._connection is not None:
            self._connection.leave(CloseReason.DRAIN)

    async def _keep(self) -> None:
        back_off, redirects, address = BackOff(), 0, self.link.address
        while True:
            started_at = self._loop.time()
            await self._dial(address)
            await self._gone.wait()
            back_off.stood(self._loop.time() - started_at)
            sent_to = self._redirect() if redirects < MAX_REDIRECTS else None
            if sent_to is not None:
                log.info("link %s is sent to %s", self.link.name, sent_to)
                redirects, address = redirects + 1, sent_to
                continue
            redirects, address = 0, self.link.address
            await asyncio.sleep(back_off.rest())

    def _redirect(self) -> Address | None:
        """Returns where the last session's peer sent us, if we may go there."""
        end = self._connection.end if self._connection is not None else None
        if end is None or end.reason != "redirect":
            return None
        try:
            address = parse_address(end.detail)
        except PydanticCustomError:
            return None
        is_spoken = address.scheme in self._spec.transports and not address.is_datagram
        if is_spoken and self.link.may_be_sent_to(address):
            return address
        log.warning("link %s is redirected to %s, which is not in its redirect_hosts", self.link.name, address)
        return None

    # -- dialling ----------------------------------------------------------------------------------------------

    async def _dial(self, address: Address) -> None:
        """Dials until the transport stands. Then the carrier goes on by itself, and `left` reports its end."""
        self._connection = None
        limit = self._sessions.limits(self.link.name).handshake_seconds
        deadline = self._loop.time() + limit
        made: list[Carrier] = []

        def carrier() -> Carrier:
            self._gone.clear()
            made.append(self._carrier(address, deadline))
            return made[0]

        try:
            async with asyncio.timeout(limit):
                await self._loop.create_connection(carrier, address.host, address.port, **self._tls(address))
        except (OSError, TimeoutError) as failed:
            self.reachability.lost(f"{address} does not answer: {_why(failed)}")
            for connection in made:  # the peer was there, but TLS with it was not to be had
                connection.standing.ended("tls" if isinstance(failed, ssl.SSLError) else "timeout")
                connection.standing.gone()
            self._gone.set()

    def _tls(self, address: Address) -> dict[str, Any]:
        if not address.has_tls:
            return {}
        context = self.secured.context if self.secured is not None else ssl.create_default_context()
        name = self.secured.server_name if self.secured is not None else None
        return {"ssl": context, "server_hostname": name or address.host, "ssl_shutdown_timeout": LINGER_SECONDS}

    def _carrier(self, address: Address, deadline: float) -> Carrier:
        standing = _LinkStanding(self._metrics, lambda: self.reachability.reached(f"stands: {address}"))
        if not address.is_websocket:
            return StreamCarrier(self, standing, str(address.at), deadline)
        text, frame_bytes = self._spec.text_messages, self._sessions.limits(self.link.name).frame_bytes
        protocol = dialling(address, frame_bytes, text=text)
        return WebSocketCarrier(self, standing, str(address.at), deadline, protocol, text=text)

    # -- for carriers ------------------------------------------------------------------------------------------

    def begin(self, carrier: Carrier) -> Connection:
        proven = proven_by(carrier.tls, lambda: self.secured)
        auth = Auth.TLS if carrier.tls is not None else Auth.SESSION
        name = proven.node or f"link:{self.link.name}"
        peer = Peer(carrier.address, name, auth, (proven,))
        self._connection = self._sessions.connect(self.link, carrier, peer)
        return self._connection

    def on_closed(self, carrier: Carrier) -> None:
        self._gone.set()
        if self._stopping:
            return
        connection, reason = self._connection, carrier.standing.reason
        if connection is not None and connection.end is not None and connection.end.detail:
            reason = f"{reason}: {connection.end.detail}"
        happening = "the handshake failed" if connection is None or not connection.number else "the session ended"
        self.reachability.lost(f"{carrier.address}: {happening}: {reason}")


class _LinkStanding(ConnectionGauge):
    """Notifies its link when the session opens, beside counting."""

    def __init__(self, metrics: ListenerMetrics, on_open: Callable[[], None]) -> None:
        super().__init__(metrics)
        self._on_open = on_open

    def opened(self) -> None:
        super().opened()
        self._on_open()


def _why(failed: Exception) -> str:
    if isinstance(failed, ssl.SSLError):
        return failed.reason or "TLS failed"
    if isinstance(failed, OSError) and failed.errno and failed.errno > 0:
        return os.strerror(failed.errno)  # asyncio's own words repeat the address
    return (failed.strerror if isinstance(failed, OSError) else None) or type(failed).__name__

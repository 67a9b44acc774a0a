"""A connection before it has a carrier: the PROXY header if the listener expects one, then TLS if it has it.

    accepted ─► [its turn] ─► [PROXY header, read to the byte] ─► [TLS handshake] ─► carrier

All of it has to be done by one deadline, and counts as one connection from the first moment: a peer that connects and
says nothing holds a place for `handshake_seconds` and no longer.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol, cast

from gateway.core.reasons import Reason, Rejected
from gateway.edge.carriers import proxy
from gateway.edge.carriers.carrier import LINGER_SECONDS, Carrier
from gateway.edge.carriers.peer import address_of
from gateway.edge.metrics import ConnectionGauge

LEAST_SECONDS = 0.001
"""asyncio takes no handshake limit of nothing."""
EARLY_BYTES = 16_384
"""A record of TLS."""


class ListenerPort(Protocol):
    """The listener as an arrival sees it."""

    @property
    def proxied(self) -> bool: ...
    @property
    def tls(self) -> ssl.SSLContext | None: ...
    @property
    def handshake_seconds(self) -> float: ...

    def enter(self) -> ConnectionGauge | None:
        """Returns a place for one more connection, if only to be turned away; None if there is none."""

    def may_connect(self, address: object) -> bool:
        """Returns True if connections from this socket address are taken here."""

    def seconds_until_turn(self) -> float | None:
        """Returns how long a new connection waits so that not too many arrive in a second; None if that is too long."""

    waiting: set[PendingConnection]
    """Those whose turn has not come. They are refused when the listener closes."""

    def carrier(self, standing: ConnectionGauge, address: str, deadline: float) -> Carrier: ...
    def leave(self, standing: ConnectionGauge) -> None:
        """Frees the place of a connection that never had a carrier."""

    def keep(self, task: asyncio.Task[None]) -> None:
        """Holds a reference to it until it is done."""


class PendingConnection(asyncio.BufferedProtocol):
    def __init__(self, door: ListenerPort) -> None:
        self._loop = asyncio.get_running_loop()
        self._door = door
        self._deadline = self._loop.time() + door.handshake_seconds
        self._standing: ConnectionGauge | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._address = ""
        self._header_buffer = memoryview(bytearray(proxy.HEAD_BYTES))
        self._filled = 0
        self._head = b""
        self._reason: str = "eof"
        self._securing = False
        self._early = b""

    # -- asyncio's side ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._standing = self._door.enter()
        if self._standing is None:
            self._transport.abort()
            return
        self._address = address_of(transport)
        if not self._door.may_connect(transport.get_extra_info("peername")):
            self.refuse(Reason.FORBIDDEN)
            return
        seconds = self._door.seconds_until_turn()
        if seconds is None:
            self.refuse(Reason.RATE_LIMITED)
        elif seconds:
            self._transport.pause_reading()
            self._door.waiting.add(self)
            self._timer = self._loop.call_later(seconds, self._take_turn)
        else:
            self._begin()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._header_buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._securing:  # asyncio reads what came with the end of the handshake before it lets us go on
            self._early += self._header_buffer[:nbytes]
            self._filled = 0
            return
        if self._filled < len(self._header_buffer):
            return
        try:
            self._take(bytes(self._header_buffer))
        except Rejected as refused:
            self.refuse(refused.reason)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - there is nobody to tell
        """Tells the listener that the peer left before a carrier had taken the transport over."""
        self._door.waiting.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._standing is not None:
            self._standing.ended(self._reason)
            self._standing.gone()
            self._door.leave(self._standing)
            self._standing = None

    def _take_turn(self) -> None:
        """Others came before. The time of the handshake begins now."""
        self._door.waiting.discard(self)
        self._deadline = self._loop.time() + self._door.handshake_seconds
        if self._transport is not None:
            self._transport.resume_reading()
        self._begin()

    def _begin(self) -> None:
        self._timer = self._loop.call_at(self._deadline, self.refuse, Reason.TIMEOUT)
        if not self._door.proxied:
            self._admit()

    def refuse(self, reason: str) -> None:
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    # -- the stages --------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Takes a part of the header, and never reads past it: the next byte may be TLS's."""
        if not self._head:
            self._head = data
            rest = proxy.rest_length(data)
            if rest:
                self._header_buffer, self._filled = memoryview(bytearray(rest)), 0
                return
            data = b""
        self._address = proxy.source(self._head, data) or self._address
        self._admit()

    def _admit(self) -> None:
        context = self._door.tls
        if context is None:
            self._hand_over()
        else:
            self._door.keep(self._loop.create_task(self._secure(context)))

    def _hand_over(self) -> None:
        transport, carrier = self._transport, self._make_carrier()
        if transport is not None and carrier is not None:
            transport.set_protocol(carrier)
            carrier.connection_made(transport)

    def _make_carrier(self) -> Carrier | None:
        """Makes the carrier, which holds the place of the connection from here on."""
        standing, self._standing = self._standing, None
        if self._timer is not None:
            self._timer.cancel()
        return None if standing is None else self._door.carrier(standing, self._address, self._deadline)

    async def _secure(self, context: ssl.SSLContext) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._securing, self._header_buffer, self._filled = True, memoryview(bytearray(EARLY_BYTES)), 0
        try:
            secured = await self._loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=max(self._deadline - self._loop.time(), LEAST_SECONDS),
                ssl_shutdown_timeout=LINGER_SECONDS,
            )
        except OSError as refused:
            self._reason = "tls" if isinstance(refused, ssl.SSLError) else self._reason
            self.connection_lost(refused)
            return
        carrier = None if secured is None else self._make_carrier()
        if secured is None or carrier is None:  # the peer left in the middle of it
            self.connection_lost(None)
            return
        secured.set_protocol(carrier)
        carrier.connection_made(secured)
        carrier.take_early(self._early)

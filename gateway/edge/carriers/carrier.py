"""A carrier moves a connection's bytes: it is asyncio's BufferedProtocol, which reads into one shared buffer.

    connection_made ─► [WebSocket: upgrade] ─► host.begin: a session ─► bytes both ways ─► close ─► connection_lost

Invariants
1. A carrier has at most one connection, and tells its host that it left, once, last.
2. Once closed, what was written goes out first; then the peer has `LINGER_SECONDS` to take it and to close in turn,
   and what it still sends meanwhile is thrown away: to close with bytes unread would reset the connection, and our last
   words would be lost with it. A peer that does neither is cut off.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from gateway.core.address import host_name, is_loopback
from gateway.edge.carriers.backlog import Backlog
from gateway.edge.carriers.peer import PeerIdentity
from gateway.edge.carriers.read_control import READ_BYTES, PauseReason, ReadSize
from gateway.edge.metrics import ConnectionGauge

if TYPE_CHECKING:
    from gateway.edge.connection import Connection

_buffer = memoryview(bytearray(READ_BYTES))
"""Shared by all connections of a process: what is read is consumed before the next read."""

TLS_BYTES = 32_768
"""Two records of TLS. asyncio keeps a buffer of 256 KiB for each connection, however little it reads, and twice as much
of what it has read and the carrier does not take."""
SSLProtocol.max_size = TLS_BYTES

LINGER_SECONDS = 5.0
DISCARDED_BYTES = 4_194_304
"""A peer that sends more than this after our goodbye is not about to stop."""


class CarrierHost(Protocol):
    """The host of a carrier is the listener or the link that made it."""

    def begin(self, carrier: Carrier) -> Connection:
        """Makes a session for a carrier that is ready for one. It may have ended already, if there was no place."""

    def on_closed(self, carrier: Carrier) -> None:
        """Hears that the carrier's transport is no more."""


class Carrier(asyncio.BufferedProtocol, ABC):
    """Carries the bytes of one connection.

    Args:
        deadline: when its session must stand, by the loop's clock.
        address: the peer's address.

    `identity` is the peer's identity by what it presented to the carrier itself.
    """

    def __init__(self, host: CarrierHost, standing: ConnectionGauge, address: str, deadline: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self.standing = standing
        self.address = address
        self.deadline = deadline
        self.identity: PeerIdentity | None = None
        self.connection: Connection | None = None
        self._transport: asyncio.Transport | None = None
        self._unread_bytes: Callable[[], int] | None = None
        """How many bytes TLS has read and keeps, because the carrier does not take them."""
        self._backlog = Backlog()
        self._high_bytes = self._low_bytes = 0
        self._read = ReadSize()
        self._asked_bytes = 0
        self._closing = False
        self._peer_is_done = False
        self._discarded = 0
        self._cut: asyncio.TimerHandle | None = None

    # -- for the kinds of carriers -----------------------------------------------------------------------------

    @abstractmethod
    def _connected(self) -> None:
        """Hears that the transport stands."""

    @abstractmethod
    def _received(self, data: memoryview, now: float) -> None: ...

    has_more = False
    """True while the carrier has kept something that it read for `go_on`."""

    def go_on(self, now: float) -> None:
        """Takes a slice of what the carrier has kept."""

    @abstractmethod
    def _ended(self) -> None:
        """Hears that the peer sends no more."""

    @abstractmethod
    def write(self, messages: list[bytes]) -> None:
        """Writes the items. Each is whole: a frame, or a message of the protocol."""

    def _say_goodbye(self, reason: str) -> None:
        """The transport's own last word, after the protocol's."""

    def _begin(self) -> None:
        self.connection = self._host.begin(self)
        self.connection.start()

    def _put_out(self, data: bytes) -> None:
        if self._transport is None or self._closing or self._transport.is_closing():
            return
        if self._backlog.is_held:
            self._backlog.add(data)
            self._judge_reader()
        else:
            self._transport.write(data)

    def _judge_reader(self) -> None:
        """Stops reading a peer that reads too little, until it has caught up."""
        if self.connection is None:
            return
        queued_bytes = self.queued_bytes()
        if queued_bytes > self._high_bytes:
            self.connection.gate.hold(PauseReason.UNREAD)
        elif queued_bytes <= self._low_bytes:
            self.connection.gate.release(PauseReason.UNREAD)

    # -- asyncio's side ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1, low=0)
        if self.tls is not None:
            secured = cast(Any, transport)
            secured.set_read_buffer_limits(TLS_BYTES)
            self._unread_bytes = secured.get_read_buffer_size
        self._connected()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        size = self._read.bytes
        self._asked_bytes = size if self.connection is None else self.connection.reading.read_bytes(size)
        return _buffer[: self._asked_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            self._discarded += nbytes
            if self._discarded > DISCARDED_BYTES:
                self.abort()
            return
        self._take_in(_buffer[:nbytes], is_filled=nbytes == self._asked_bytes)

    def take_early(self, data: bytes) -> None:
        """Takes what the transport had read before it was handed to this carrier."""
        if data and not self._closing:
            self._take_in(memoryview(data), is_filled=False)

    def _take_in(self, data: memoryview, *, is_filled: bool) -> None:
        began = time.thread_time()
        self._received(data, self._loop.time())
        seconds = time.thread_time() - began
        self._read.took(len(data), seconds)
        if self.connection is not None:
            self.connection.reading.account(seconds, is_filled=is_filled)

    def eof_received(self) -> bool:
        self._peer_is_done = True
        return self._may_still_read()

    def _may_still_read(self) -> bool:
        """The peer sends no more. True keeps the way to it open, until the connection closes."""
        self._ended()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the session knows why
        if self._cut is not None:
            self._cut.cancel()
        self._closing = True
        self._backlog.clear()
        self._ended()
        self.standing.gone()
        self._host.on_closed(self)

    def pause_writing(self) -> None:
        self._backlog.is_held = True
        self._judge_reader()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._backlog.hand_over(self._transport)
        self._judge_reader()

    # -- the connection's side ---------------------------------------------------------------------------------

    @property
    def tls(self) -> ssl.SSLObject | None:
        tls_object: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object") if self._transport else None
        return tls_object

    @property
    def is_local(self) -> bool:
        """True if the peer is on this machine, and no balancer speaks for it."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return isinstance(name, tuple) and is_loopback(str(name[0])) and is_loopback(host_name(self.address))

    @property
    def is_confidential(self) -> bool:
        """True if nobody between the peer and us can read what is said: TLS, or both are on this machine."""
        return self.tls is not None or self.is_local

    @property
    def is_present(self) -> bool:
        """The transport knows that the peer is there, however silent."""
        return False

    def limit_writes(self, high: int, low: int) -> None:
        """Sets beyond how many bytes that wait the peer is not read, and below how many it is read again."""
        self._high_bytes, self._low_bytes = high, low

    def queued_bytes(self) -> int:
        in_transport = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return in_transport + len(self._backlog)

    @property
    def held_bytes(self) -> int:
        """The bytes in memory for this peer alone: they wait to be written, or to be taken by its session."""
        return self.queued_bytes() + (self._unread_bytes() if self._unread_bytes is not None else 0)

    def pause_reading(self) -> None:
        if self._transport is not None and not self._closing and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self, reason: str) -> None:
        """Closes the connection after what was written has gone out. `reason` is that of `Terminated`."""
        transport = self._transport
        if self._closing or transport is None:
            return
        self._say_goodbye(reason)
        if self._backlog:
            transport.write(self._backlog.take_all())
        self._closing = True
        self._cut = self._loop.call_later(LINGER_SECONDS, transport.abort)
        if transport.is_closing():
            return
        try:
            self._half_close(transport)
        except OSError:  # the peer has reset the connection, and the loop does not know it yet
            transport.abort()

    def _half_close(self, transport: asyncio.Transport) -> None:
        """TLS cannot be closed by halves; it has a goodbye of its own, which waits for the peer's. And where the peer
        has closed its half, nothing is left to wait for."""
        if transport.can_write_eof() and not self._peer_is_done:
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def abort(self) -> None:
        self._backlog.clear()
        if self._transport is not None:
            self._transport.abort()

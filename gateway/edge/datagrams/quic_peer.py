"""Drives one QUIC connection: its clock, what it has received, and what waits to be sent on it.

    handshake ──TLS done, certificate good──► open ──► closing ──► gone
        └── not in time, no certificate, no place in the protocol ──►┘

Invariants
1. Datagrams are taken and sent while it is open, and in no other state.
2. Each datagram that was to be sent is told its end once: sent, or what was in the way.
3. `QuicHost.gone` is called once, last.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    QuicEvent,
)
from aioquic.quic.packet import QuicErrorCode
from cryptography import x509

from gateway.carriers.quic import DatagramConnection, is_idle, is_tls
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.reasons import Reason
from gateway.edge.datagrams.quic_admission import Address
from gateway.edge.metrics import ConnectionGauge
from gateway.protocols.actions import CloseReason

log = logging.getLogger(__name__)
_faults = RateLimitedFaultLog(log)

ENTRY_BYTES = 512
"""The cost of a packet that waits, beside its bytes: its delivery, and its places in queues. The smallest have twenty
bytes."""

Done = Callable[[str], None]
"""Told "" when a packet has been put out, or what is in the way."""


class QuicHost(Protocol):
    """The listener as its connections see it."""

    def took(self, peer: QuicPeer, packet: bytes) -> None: ...
    def lets_in(self, certificate: x509.Certificate, chain: Sequence[x509.Certificate]) -> bool: ...
    def put_out(self, data: bytes, address: Address) -> None: ...
    def arrived(self) -> None:
        """Hears that a handshake is over, however it went."""

    def issued(self, connection_id: bytes, peer: QuicPeer) -> None:
        """Hears that the connection is known by this id too."""

    def retired(self, connection_id: bytes) -> None: ...
    def gone(self, peer: QuicPeer) -> None: ...


class QuicPeer:
    """The peer of one QUIC connection. `name` is the connection's, whatever address its peer moves to.

    `certificate` is what the peer has proven itself with, and stands by.
    """

    def __init__(
        self,
        host: QuicHost,
        connection: DatagramConnection,
        name: str,
        standing: ConnectionGauge,
        handshake_seconds: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._connection = connection
        self._standing = standing
        self.name = name
        self.is_open = False
        self.certificate: x509.Certificate | None = None
        self._is_arriving = True
        self._gone = False
        self._sending: deque[tuple[int, Done]] = deque()
        self._sending_bytes = 0
        self._flush_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self._loop.call_later(handshake_seconds, self._too_late)

    # -- what the peer sends -----------------------------------------------------------------------------------

    def receive(self, data: bytes, address: Address, now: float) -> None:
        """Takes one packet. The caller then calls `flush` once for all packets that came at once."""
        try:
            self._connection.receive_datagram(data, address, now)
            self._take_events()
        except Exception:
            self._failed("reading")

    def _take_events(self) -> None:
        while (event := self._connection.next_event()) is not None:
            self._take(event)

    def _take(self, event: QuicEvent) -> None:
        match event:
            case DatagramFrameReceived(packet):
                if self.is_open:
                    self._host.took(self, packet)
            case HandshakeCompleted():
                self._completed()
            case ConnectionIdIssued(connection_id):
                self._host.issued(connection_id, self)
            case ConnectionIdRetired(connection_id):
                self._host.retired(connection_id)
            case ConnectionTerminated():
                self._ended(_slug(event))

    def _completed(self) -> None:
        self._arrived()
        if self._connection.admit(self._host.lets_in):
            self.is_open = True
            self._standing.opened()
            self.certificate = self._connection.client_certificate
            if self.certificate is not None:
                seconds = max(self.certificate.not_valid_after_utc.timestamp() - time.time(), 0.0)
                self._deadline = self._loop.call_later(seconds, self.leave, CloseReason.EXPIRED)
        else:
            self._standing.ended("tls")

    def _too_late(self) -> None:
        self.leave(Reason.TIMEOUT)

    # -- what the peer is sent ---------------------------------------------------------------------------------

    def send(self, packet: bytes, done: Done, bound_bytes: int) -> None:
        """Sends one packet. `bound_bytes` bounds what may wait for the congestion window."""
        largest = self._connection.largest_datagram
        if not self.is_open:
            done("the connection is not open")
        elif len(packet) > largest:
            done(f"the peer takes datagrams of {largest} bytes at most" if largest else "the peer takes no datagrams")
        elif self._sending_bytes + ENTRY_BYTES + len(packet) > bound_bytes:
            done("the peer reads too slowly")
        else:
            self._connection.send_datagram_frame(packet)
            self._sending.append((ENTRY_BYTES + len(packet), done))
            self._sending_bytes += ENTRY_BYTES + len(packet)
            if not self._flush_is_due:
                self._flush_is_due = True
                self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Puts out what may go now.

        Writing raises events of its own: aioquic issues new connection ids while it writes. The listener must know them
        before the peer can use them, so they are taken before the packets leave.
        """
        self._flush_is_due = False
        if self._gone:
            return
        try:
            packets = self._connection.datagrams_to_send(self._loop.time())
            self._take_events()
            for data, address in packets:
                self._host.put_out(data, address)
        except Exception:
            self._failed("writing")
        if self._gone:
            return
        while len(self._sending) > self._connection.waiting_datagrams:
            self._sent("")
        self._set_timer()

    def _sent(self, detail: str) -> None:
        size, done = self._sending.popleft()
        self._sending_bytes -= size
        done(detail)

    # -- time --------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Keeps the earliest timer that was ever needed; one that comes too early only looks and sets the next."""
        due = self._connection.get_timer()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        due = self._connection.get_timer()
        try:
            if due is not None and due <= self._loop.time():
                self._connection.handle_timer(self._loop.time())
                self._take_events()
        except Exception:
            self._failed("waiting")
        self.flush()

    # -- the end -----------------------------------------------------------------------------------------------

    def leave(self, reason: str) -> None:
        """Says goodbye. The connection stays for a moment, to say it again to who has not heard it."""
        self._standing.ended(reason)
        self._arrived()
        self.is_open = False
        self._connection.close(error_code=QuicErrorCode.NO_ERROR, reason_phrase=str(reason))
        self.flush()

    def abort(self) -> None:
        """Lets go of it without a word."""
        self._ended("drain")

    @property
    def held_bytes(self) -> int:
        """The bytes that wait for the peer to acknowledge others."""
        return self._sending_bytes

    def cut(self) -> None:
        """Frees at once what waits for a peer that holds too much of the edge's memory."""
        self.leave(CloseReason.OVER_BUDGET)
        self._ended(CloseReason.OVER_BUDGET)

    def _failed(self, doing: str) -> None:
        _faults.log_exception(f"while {doing} on a QUIC connection")
        self._ended(Reason.INTERNAL)

    def _arrived(self) -> None:
        if self._is_arriving:
            self._is_arriving = False
            self._deadline.cancel()
            self._host.arrived()

    def _ended(self, reason: str) -> None:
        if self._gone:
            return
        self._gone, self.is_open = True, False
        self._arrived()
        self._deadline.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while self._sending:
            self._sent("the connection ended first")
        self._standing.ended(reason)
        self._standing.gone()
        self._host.gone(self)


def _slug(end: ConnectionTerminated) -> str:
    if is_tls(end):
        return "tls"
    if is_idle(end):
        return "idle"
    return "bye" if end.error_code == QuicErrorCode.NO_ERROR else "peer_error"

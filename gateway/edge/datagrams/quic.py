"""The QUIC listener: packets of a datagram protocol, each in a DATAGRAM frame, over connections that are secret.

The same packets under the same rules as by UDP: what a packet proves is proven by itself, and a client's certificate
admits it, no more. Towards the mesh the peer is `host:port#token`: where it was when it came, and the connection's own
mark. That name stays when the peer moves to another address (RFC 9000 section 9), and no other connection ever has it,
so what was meant for one client is never sent to the next that happens to have its address.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE
from aioquic.quic.packet import QuicHeader, QuicPacketType, pull_quic_header
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.carriers.quic import DatagramConnection
from gateway.config import Limits, Listener
from gateway.core.address import host_port
from gateway.core.reasons import Reason
from gateway.edge.carriers.read_control import (
    ARRIVALS_BURST_SECONDS,
    SLICE_SECONDS,
    STREAM_FRAMES_PER_SECOND,
    TokenBucket,
)
from gateway.edge.datagrams.incoming import DATAGRAM_BYTES
from gateway.edge.datagrams.listener import DatagramListener
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.quic_admission import Address, Retries, other_versions, refusal
from gateway.edge.datagrams.quic_peer import QuicPeer
from gateway.edge.datagrams.quic_tls import QuicContext
from gateway.edge.datagrams.sending import Datagram, OfT
from gateway.edge.metrics import ConnectionGauge, ListenerMetrics
from gateway.edge.publisher import RawPublisher
from gateway.protocols.actions import CloseReason
from gateway.records.raw_log.frames import FrameSource

log = logging.getLogger(__name__)

PACKETS_PER_WAKE_UP = 64
"""Each costs some 100 µs to decrypt and take apart, and one that is full of empty DATAGRAM frames several milliseconds.
After so many, or once they have taken their time, others have their turn."""
RETRY_FROM_ARRIVING = 64
"""So many handshakes under way, and more must first prove that they are where they say: a handshake costs us a
signature and a place, and whoever forges addresses would have both for one packet."""
TOKEN_BYTES = 4


@dataclass(slots=True)
class _Connection:
    """The listener's memory of a connection. `ids` are the ids it is known by, `authorities` those
    under which its peer's certificate was taken."""

    peer: QuicPeer
    source: FrameSource
    partition: int
    authorities: frozenset[bytes]
    bucket: TokenBucket
    ids: set[bytes] = field(default_factory=set)


class QuicListener(DatagramListener):
    """Listens for QUIC connections. `listener` and `secured` may be replaced: what is bound stays, new connections get
    the new certificates."""

    def __init__(
        self,
        listener: Listener,
        publisher: RawPublisher,
        metrics: ListenerMetrics,
        limits: Limits,
        secured: QuicContext,
    ) -> None:
        super().__init__(listener, publisher, metrics)
        self._retries = Retries()
        self._by_id: dict[bytes, QuicPeer] = {}
        self._connections: dict[str, _Connection] = {}
        self._arriving = 0
        self._closed = False
        self.secured = secured
        self.reconfigure(limits)

    def reconfigure(self, limits: Limits) -> None:
        """Limits that hold from now on; the idle time for new connections."""
        self._limits = limits
        self._arrivals = TokenBucket(limits.connections_per_second, self._loop.time(), ARRIVALS_BURST_SECONDS)
        self._limit_strangers(limits)
        for connection in self._connections.values():
            connection.bucket = self._bucket()

    def stop(self) -> None:
        """Says goodbye to all peers, and sends them nothing more: there are no connections without receiving."""
        self._closed = True
        super().stop()
        for connection in list(self._connections.values()):
            connection.peer.leave("drain")
            connection.peer.abort()
        self.close()

    @property
    def peers(self) -> list[QuicPeer]:
        return [connection.peer for connection in self._connections.values()]

    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        """Sends the datagrams. Their addresses are the names of connections."""
        for datagram in datagrams:
            frame, name, _ = datagram
            connection = self._connections.get(name)
            if connection is None:
                on_sent((datagram,), "the listener is gone" if self._closed else "the connection is gone")
            else:
                connection.peer.send(frame, partial(on_sent, (datagram,)), self._limits.queue_bytes)

    def judge_again(self) -> None:
        """Ends connections whose peers would not be let in any more by the certificate that they have shown."""
        for connection in list(self._connections.values()):
            shown = connection.peer.certificate
            if shown is not None and not self.secured.still_trusts(
                shown.public_bytes(Encoding.DER), connection.authorities
            ):
                connection.peer.leave(CloseReason.REVOKED)

    # -- receiving ---------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        heard_peers: dict[str, QuicPeer] = {}
        until = time.thread_time() + SLICE_SECONDS
        try:
            for _ in range(PACKETS_PER_WAKE_UP):
                data, address = self.socket.recvfrom(DATAGRAM_BYTES)
                if (peer := self._route(data, address[:2])) is not None:
                    heard_peers[peer.name] = peer
                if time.thread_time() > until:
                    break
        except BlockingIOError:
            pass
        except OSError as error:  # an ICMP error of an earlier send; the socket goes on
            log.debug("socket of %s: %s", self.listener.name, error)
        for peer in heard_peers.values():
            peer.flush()

    def _route(self, data: bytes, address: Address) -> QuicPeer | None:
        id_length = self.secured.quic.connection_id_length
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=id_length)
        except ValueError:  # no QUIC: there is nobody to tell
            return None
        peer = self._by_id.get(header.destination_cid)
        if peer is None and len(data) >= SMALLEST_MAX_DATAGRAM_SIZE:  # a shorter one begins nothing (section 14.1)
            peer = self._arrive(header, address)
        if peer is not None:
            peer.receive(data, address, self._loop.time())
        return peer

    def _arrive(self, header: QuicHeader, address: Address) -> QuicPeer | None:
        now, supported = self._loop.time(), self.secured.quic.supported_versions
        if header.version and header.version not in supported:
            self.put_out(other_versions(header, supported), address)
            return None
        if header.packet_type is not QuicPacketType.INITIAL:
            return None
        first_id = self._retries.proven(header, address, now)
        if first_id is None and self._arriving >= RETRY_FROM_ARRIVING:
            self.put_out(self._retries.demand(header, address, now), address)
            return None
        standing = self._enter()
        if standing is None:
            self.put_out(refusal(header), address)
            return None
        return self._meet(header.destination_cid, first_id, address, standing)

    def _enter(self) -> ConnectionGauge | None:
        """Returns a place for one more connection; None if there is none."""
        standing = ConnectionGauge(self._metrics)
        has_place = len(self._connections) < self._limits.connections
        if has_place and self._arrivals.has_one(self._loop.time()):
            return standing
        standing.ended(Reason.RATE_LIMITED if has_place else Reason.OVERLOAD)
        standing.gone()
        return None

    def _meet(self, own_id: bytes, first_id: bytes | None, address: Address, standing: ConnectionGauge) -> QuicPeer:
        """`own_id`: what the peer calls us for now. `first_id`: what it did before it was told to come again."""
        configuration = replace(self.secured.quic, idle_timeout=self._limits.idle_seconds)
        connection = DatagramConnection(configuration, first_id or own_id, own_id if first_id is not None else None)
        name = f"{host_port(*address)}#{os.urandom(TOKEN_BYTES).hex()}"
        peer = QuicPeer(self, connection, name, standing, self._limits.handshake_seconds)
        source = replace(self._source, peer=name)
        partition = self._publisher.partition_of(name.encode())
        self._connections[name] = _Connection(peer, source, partition, self.secured.authorities, self._bucket())
        self._arriving += 1
        for connection_id in (own_id, connection.host_cid):
            self.issued(connection_id, peer)
        return peer

    def _bucket(self) -> TokenBucket:
        """A connection has the rate of a stream: it is one peer's, and nobody else can use it up."""
        rate = self._limits.frames_per_second_per_session or STREAM_FRAMES_PER_SECOND
        return TokenBucket(rate, self._loop.time())

    # -- for connections ---------------------------------------------------------------------------------------

    def took(self, peer: QuicPeer, packet: bytes) -> None:
        connection = self._connections[peer.name]
        self._metrics.received_frames.inc()
        self._metrics.received_bytes.inc(len(packet))
        if self._publisher.in_flight.is_full:
            self._metrics.rejected(Reason.OVERLOAD)
        elif not connection.bucket.has_one(self._loop.time()) or self._is_too_much(len(packet)):
            self._metrics.rejected(Reason.RATE_LIMITED)
        else:
            key = self._peek(packet) if self._peek is not None else b""
            partition = self._publisher.partition_of(key) if key else connection.partition
            received_at = time.time_ns() // 1000
            self._publisher.add_datagrams(partition, (connection.source,), received_at, (len(packet),), packet, self)

    def lets_in(self, certificate: x509.Certificate, chain: Sequence[x509.Certificate]) -> bool:
        return self.secured.lets_in(certificate, chain)

    def put_out(self, data: bytes, address: Address) -> None:
        self._out.send([(data, host_port(*address), None)], _lost)

    def arrived(self) -> None:
        self._arriving -= 1

    def issued(self, connection_id: bytes, peer: QuicPeer) -> None:
        self._by_id[connection_id] = peer
        self._connections[peer.name].ids.add(connection_id)

    def retired(self, connection_id: bytes) -> None:
        if (peer := self._by_id.pop(connection_id, None)) is not None:
            self._connections[peer.name].ids.discard(connection_id)

    def gone(self, peer: QuicPeer) -> None:
        for connection_id in self._connections.pop(peer.name).ids:
            del self._by_id[connection_id]


def _lost(_: object, detail: str) -> None:
    """QUIC sends again what matters to it, and knows no difference to a packet that the network lost."""
    if detail:
        log.debug("a packet was %s", detail)

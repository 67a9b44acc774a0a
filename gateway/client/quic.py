"""The client of emm over QUIC: the same packets, each in a DATAGRAM frame of a connection that is secret.

    dialled ──TLS done──► asked for a sign of life ──it comes──► open ──► over

The sign of life is waited for because a server that misses our certificate says so only after TLS is done for us.
"""

from __future__ import annotations

import asyncio
import logging
import socket

from aioquic.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    PingAcknowledged,
    QuicEvent,
)
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import AlertDescription

from gateway.carriers.quic import DatagramConnection, client_configuration, is_idle, is_tls
from gateway.client.datagram import DATAGRAMS_PER_WAKE_UP, DatagramClient, TlsFiles, connected_socket
from gateway.client.driver import why
from gateway.client.errors import ClientError, EndedError, UnreachableError
from gateway.client.packet_key import PacketKey
from gateway.client.packets import EMM, PLAIN, PacketReader, Wrapping
from gateway.core.address import Address
from gateway.core.reasons import Reason, Rejected

log = logging.getLogger(__name__)

CONNECT_SECONDS = 10.0
READ_BYTES = 2048
"""No packet of QUIC is larger that has not first asked whether the path takes it."""
WAITING_PACKETS = 4_096
"""Posted faster than the peer acknowledges; beyond this they are lost, as UDP would lose them."""
_SIGN_OF_LIFE = 0
_ALERTS = {int(alert): alert.name.replace("_", " ") for alert in AlertDescription}


class QuicClient(DatagramClient):
    """A client of emm over QUIC, made by `connect_emm` for a `quic://` address."""

    def __init__(
        self, sock: socket.socket, peer: str, key: PacketKey | None, reader: PacketReader, quic: DatagramConnection
    ) -> None:
        self._quic = quic
        self._at = sock.getpeername()
        self._timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._empty = asyncio.Event()
        self._ended: ClientError | None = None
        self._losing = False
        self._closing = False
        super().__init__(sock, peer, key, reader)

    @classmethod
    async def dial(cls, address: Address, key: PacketKey | None, reader: PacketReader, tls: TlsFiles) -> QuicClient:
        """Raises UnreachableError."""
        try:
            configuration = client_configuration(EMM, tls.ca, tls.cert, tls.key, tls.server_name or address.host)
        except (OSError, ValueError) as failed:
            raise UnreachableError(str(address), f"our TLS files: {failed}") from failed
        client = cls(await connected_socket(address), str(address), key, reader, DatagramConnection(configuration))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client._begin()
        except BaseException as failed:
            client.close()
            if isinstance(failed, TimeoutError):
                raise UnreachableError(client.peer, f"no connection within {CONNECT_SECONDS:g} s") from None
            raise
        return client

    async def _begin(self) -> None:
        self._quic.connect(self._at, self._loop.time())
        self._flush()
        await self._opened
        if not self._quic.largest_datagram:
            raise UnreachableError(self.peer, "it takes no datagrams")

    def _hang_up(self) -> None:
        self._closing = True
        self._quic.close(error_code=QuicErrorCode.NO_ERROR, reason_phrase="bye")
        if self._ended is None:
            self._flush()
        self._stop_timer()
        super()._hang_up()

    # -- sending -----------------------------------------------------------------------------------------------

    async def publish(
        self, subject: str, body: bytes = b"", content_type: str = "", wrapping: Wrapping = PLAIN
    ) -> None:
        """Sends like `post`, after what was posted before has gone out, and waits until this has gone out too.

        So it is as fast as the peer acknowledges.
        """
        await self._gone_out()
        self.post(subject, body, content_type, wrapping)
        await self._gone_out()

    async def _gone_out(self) -> None:
        self._check()
        while self._quic.waiting_datagrams:
            self._empty.clear()
            await self._empty.wait()
            self._check()

    def _send(self, packet: bytes) -> None:
        self._check()
        largest = self._quic.largest_datagram
        if len(packet) > largest:
            raise Rejected(Reason.TOO_LARGE, f"the peer takes datagrams of {largest} bytes at most")
        if self._quic.waiting_datagrams >= WAITING_PACKETS:
            if not self._losing:
                log.warning("%s acknowledges too slowly; packets are lost", self.peer)
            self._losing = True
            return
        self._losing = False
        self._quic.send_datagram_frame(packet)
        self._flush()

    def _check(self) -> None:
        if self._ended is not None:
            raise UnreachableError(self.peer, self._ended.why) from self._ended

    def _flush(self) -> None:
        for data, _ in self._quic.datagrams_to_send(self._loop.time()):
            try:
                self._socket.send(data)
            except BlockingIOError:
                log.debug("%s: the system takes no more; QUIC sends again what matters to it", self.peer)
            except OSError as refusal:
                self._refused(refusal)
        if not self._quic.waiting_datagrams:
            self._empty.set()
        self._set_timer()

    # -- receiving ---------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        for _ in range(DATAGRAMS_PER_WAKE_UP):
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                break
            except OSError as refusal:
                self._refused(refusal)
                return
            self._quic.receive_datagram(data, self._at, self._loop.time())
        self._take_events()
        self._flush()

    def _take_events(self) -> None:
        while (event := self._quic.next_event()) is not None:
            self._take_event(event)

    def _take_event(self, event: QuicEvent) -> None:
        match event:
            case DatagramFrameReceived(packet):
                self._take(packet)
            case HandshakeCompleted():
                self._quic.send_ping(_SIGN_OF_LIFE)
            case PingAcknowledged() if not self._opened.done():
                self._opened.set_result(None)
            case ConnectionTerminated():
                self._end(_ended_error(self.peer, event))

    # -- time, and the end -------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        due = self._quic.get_timer()
        if due is None or (self._timer is not None and self._timer.when() <= due):
            return
        self._stop_timer()
        self._timer = self._loop.call_at(due, self._time_is_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self) -> None:
        self._timer = None
        due = self._quic.get_timer()
        if due is not None and due <= self._loop.time():
            self._quic.handle_timer(self._loop.time())
            self._take_events()
        self._flush()

    def _refused(self, refusal: OSError) -> None:
        """Ends the attempt if nobody listens there. While a connection stands, that may pass."""
        if not self._opened.done():
            self._end(UnreachableError(self.peer, why(refusal)))

    def _end(self, ended: ClientError) -> None:
        """Tells whoever waits for anything that the connection has ended."""
        if self._ended is not None or self._closing:
            return
        self._ended = ended
        if not self._opened.done():
            self._opened.set_exception(UnreachableError(self.peer, ended.why))
        if self._granted is not None and not self._granted.done():
            self._granted.set_exception(UnreachableError(self.peer, ended.why))
        self._empty.set()
        self._inbox.end(ended)


def _ended_error(peer: str, end: ConnectionTerminated) -> ClientError:
    if is_tls(end):
        alert = end.error_code - QuicErrorCode.CRYPTO_ERROR
        name = _ALERTS.get(alert, f"alert {alert}")
        return EndedError(peer, "tls", f"{name}: {end.reason_phrase}" if end.reason_phrase else name)
    if is_idle(end):
        return EndedError(peer, "idle")
    reason = "bye" if end.error_code == QuicErrorCode.NO_ERROR else "peer_error"
    return EndedError(peer, reason, end.reason_phrase)

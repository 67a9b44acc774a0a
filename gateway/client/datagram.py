"""A client of emm: signed packets out; a lease by signed hellos and heartbeats, and the events that come by it.

subscribe ──► hello ──► … ──► the mesh's hello      again and again until it comes: a datagram may be lost
                           └► heartbeats within the lease; a hello again when it must have run out
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.auth.keyring import KeyRing
from gateway.client.address import peer_address
from gateway.client.driver import why
from gateway.client.errors import NoAnswerError, RefusedError, UnreachableError
from gateway.client.inbox import Inbox
from gateway.client.packet_key import PacketKey
from gateway.client.packets import EMM, PLAIN, GrantedLease, PacketReader, PacketWriter, Wrapping, grant_of
from gateway.core.address import Address
from gateway.core.clock import now_us
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols import protocols
from gateway.protocols.emm.frames import MAX_PACKET_BYTES

log = logging.getLogger(__name__)

HELLO_SECONDS = 1.0
"""Between a hello and the next, until one is answered."""
SUBSCRIBE_SECONDS = 30.0
HEARTBEATS_PER_LEASE = 3
"""One may be lost, and two may be late."""
DATAGRAMS_PER_WAKE_UP = 256
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of QUIC's TLS, in PEM. `ca` signed the peer's certificate; without it the system's authorities do."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None


NO_FILES = TlsFiles()


@asynccontextmanager
async def connect_emm(
    where: str,
    port: int | None = None,
    *,
    key: PacketKey | None = None,
    keys: KeyRing | None = None,
    verify: bool = False,
    tls: TlsFiles = NO_FILES,
) -> AsyncIterator[DatagramClient]:
    """Connects to an emm listener.

    `key` signs packets. `keys` open encrypted bodies; with `verify` they also verify the mesh's packets.

    Raises UnreachableError.
    """
    address = peer_address(protocols()[EMM], where, port)
    reader = PacketReader(keys, verify=verify)
    if address.scheme == "quic":
        from gateway.client.quic import QuicClient  # imported late: most clients never speak it

        client: DatagramClient = await QuicClient.dial(address, key, reader, tls)
    else:
        client = await DatagramClient.open(address, key, reader)
    try:
        yield client
    finally:
        client.close()


class DatagramClient:
    """A client of emm, made by `connect_emm`.

    A node has one lease: of two clients that subscribe as one node, the later gets all.
    """

    def __init__(self, sock: socket.socket, peer: str, key: PacketKey | None, reader: PacketReader) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._is_signed = key is not None and key.signer.tags_bytes > 0
        self._writer = PacketWriter(key, os.urandom, now_us)
        self._reader = reader
        self._inbox = Inbox(self._pause, self._resume)
        self._patterns: dict[str, None] = {}
        self._granted: asyncio.Future[GrantedLease] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._refusal: OSError | None = None
        self._resume()

    @classmethod
    async def open(cls, address: Address, key: PacketKey | None, reader: PacketReader) -> DatagramClient:
        """Raises UnreachableError."""
        return cls(await connected_socket(address), str(address), key, reader)

    def close(self) -> None:
        """Gives the lease back, as far as one datagram can."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(UnreachableError):
                self._send(self._writer.hello(()))
        self._pause()
        self._hang_up()
        self._inbox.end(None)

    def _hang_up(self) -> None:
        self._socket.close()

    # -- publishing --------------------------------------------------------------------------------------------

    def post(self, subject: str, body: bytes = b"", content_type: str = "", wrapping: Wrapping = PLAIN) -> None:
        """Sends a packet; nothing tells whether it arrives. Raises Rejected where the event does not fit into one, and
        UnreachableError where the peer's system has said that nobody listens."""
        self._send(self._writer.event(subject, body, content_type, wrapping))

    async def publish(
        self, subject: str, body: bytes = b"", content_type: str = "", wrapping: Wrapping = PLAIN
    ) -> None:
        """Sends like `post`, and gives the peer's system a moment to say that nobody listens."""
        self.post(subject, body, content_type, wrapping)
        await asyncio.sleep(0)
        self._check()

    def _send(self, packet: bytes) -> None:
        self._check()
        try:
            self._socket.send(packet)
        except BlockingIOError:
            log.warning("%s: the system takes no more datagrams; one is lost", self.peer)
        except OSError as failed:
            raise UnreachableError(self.peer, why(failed)) from failed

    def _check(self) -> None:
        """Raises what the peer's system said to an earlier datagram."""
        refusal, self._refusal = self._refusal, None
        if refusal is None and (error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            refusal = OSError(error, os.strerror(error))
        if refusal is not None:
            raise UnreachableError(self.peer, why(refusal)) from refusal

    # -- subscribing -------------------------------------------------------------------------------------------

    async def subscribe(self, *patterns: str, timeout: float = SUBSCRIBE_SECONDS) -> None:  # noqa: ASYNC109 - in words
        """Subscribes, beside what was subscribed to before. The mesh has acknowledged it when this returns.

        Raises RefusedError, NoAnswerError, UnreachableError.
        """
        if not self._is_signed:
            raise RefusedError(self.peer, Reason.UNAUTHENTICATED, "only a signed hello may subscribe: a key is needed")
        self._patterns |= dict.fromkeys(patterns)
        try:
            async with asyncio.timeout(timeout):
                grant = await self._lease()
        except TimeoutError:
            raise NoAnswerError(self.peer, f"no answer to a signed hello within {timeout:g} s") from None
        refused = [pattern for pattern in patterns if pattern not in grant.subscribed]
        if len(refused) > grant.more:
            raise RefusedError(self.peer, Reason.FORBIDDEN, f"the mesh did not subscribe us to {' '.join(refused)}")
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(grant.lease_seconds))

    async def _lease(self) -> GrantedLease:
        """Says hello until the mesh does."""
        self._granted = self._loop.create_future()
        while True:
            self._send(self._writer.hello(tuple(self._patterns)))
            done, _ = await asyncio.wait((self._granted,), timeout=HELLO_SECONDS)
            if done:
                return self._granted.result()

    async def _keep(self, lease_seconds: float) -> None:
        """A mesh that forgot the lease answers no heartbeat, so now and then it is asked for anew."""
        while True:
            for _ in range(HEARTBEATS_PER_LEASE):
                await asyncio.sleep(lease_seconds / HEARTBEATS_PER_LEASE)
                with suppress(UnreachableError):
                    self._send(self._writer.heartbeat())
            with suppress(UnreachableError):
                self._send(self._writer.hello(tuple(self._patterns)))

    def events(self) -> AsyncIterator[Event]:
        """Yields the events that come by subscription. Ends with `close`."""
        return self._inbox

    # -- receiving ---------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self._loop.remove_reader(self._socket.fileno())

    def _resume(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._drain)

    def _drain(self) -> None:
        for _ in range(DATAGRAMS_PER_WAKE_UP):
            try:
                packet = self._socket.recv(2 * MAX_PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError as refusal:
                self._refused(refusal)
                return
            self._take(packet)

    def _refused(self, refusal: OSError) -> None:
        """Notes that nobody listens there. The one that waits for an answer hears it, else the next to send."""
        if self._granted is not None and not self._granted.done():
            self._granted.set_exception(UnreachableError(self.peer, why(refusal)))
        else:
            self._refusal = refusal

    def _take(self, packet: bytes) -> None:
        try:
            event = self._reader.read(packet, self.peer, now_us())
        except Rejected as refused:
            log.info("%s: a packet is refused: %s", self.peer, refused)
            return
        grant = grant_of(event)
        if grant is None:
            self._inbox.put(event)
        elif self._granted is not None and not self._granted.done():
            self._granted.set_result(grant)


async def connected_socket(address: Address) -> socket.socket:
    """Raises UnreachableError."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
        # A datagram cannot try one family after the other, and `localhost` most often means this one.
        family, kind, protocol, _, target = min(addresses, key=lambda info: info[0] != socket.AF_INET)
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.connect(target)
    except OSError as failed:
        raise UnreachableError(str(address), why(failed)) from failed
    return sock

"""A QUIC client that is nobody's of ours: aioquic as it comes, over a UDP socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, DatagramFrameReceived, HandshakeCompleted, PingAcknowledged

from tests.unit.edge.running import until


class ForeignQuic:
    """`packets`: what came in DATAGRAM frames. `silent`: nothing that it hears is read.

    `changes_id_with`: it uses a new connection id as soon as it is given one, as quic-go does, and this is the first
    packet that it sends by it.
    """

    def __init__(
        self, port: int, ca: Path, files: dict[str, str] | None = None, local_port: int = 0, **settings: Any
    ) -> None:
        usual: dict[str, Any] = {"alpn_protocols": ["emm"], "max_datagram_frame_size": 65_535, "cafile": str(ca)}
        configuration = QuicConfiguration(is_client=True, server_name="127.0.0.1", **(usual | settings))
        if files is not None:
            configuration.load_cert_chain(files["cert"], files["key"])
        self._loop = asyncio.get_running_loop()
        self.quic = QuicConnection(configuration=configuration)
        self.packets: list[bytes] = []
        self.heard: list[bytes] = []
        self.end: ConnectionTerminated | None = None
        self.is_open = False
        self.pongs = 0
        self.silent = False
        self.changes_id_with = b""
        self._timer: asyncio.TimerHandle | None = None
        self._port = port
        self.socket = self._bound(local_port)

    def _bound(self, port: int = 0) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", port))
        sock.connect(("127.0.0.1", self._port))
        self._loop.add_reader(sock.fileno(), self._drain)
        return sock

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    async def connect(self) -> ForeignQuic:
        """Returns when the other side has confirmed the connection, or has ended it."""
        self.begin()
        await until(lambda: self.is_open or self.end)
        self.quic.send_ping(1)
        self.flush()
        await until(lambda: self.pongs or self.end)
        return self

    def begin(self) -> None:
        self.quic.connect(("127.0.0.1", self._port), now=self._loop.time())
        self.flush()

    def send(self, packet: bytes) -> None:
        self.quic.send_datagram_frame(packet)
        self.flush()

    def move(self) -> None:
        """Moves to another address, as a phone does, or a NAT."""
        self._leave_socket()
        self.socket = self._bound()

    def close(self) -> None:
        self.quic.close()
        self.flush()
        self.vanish()

    def vanish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._leave_socket()

    def _leave_socket(self) -> None:
        if self.socket.fileno() >= 0:
            self._loop.remove_reader(self.socket.fileno())
            self.socket.close()

    def flush(self) -> None:
        for data, _ in self.quic.datagrams_to_send(self._loop.time()):
            with contextlib.suppress(OSError):
                self.socket.send(data)
        due = self.quic.get_timer()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._time_is_up) if due is not None else None

    def _time_is_up(self) -> None:
        self.quic.handle_timer(self._loop.time())
        self._take_events()
        self.flush()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = self.socket.recv(65_536)
                self.heard.append(data)
                if not self.silent:
                    self.quic.receive_datagram(data, ("127.0.0.1", self._port), self._loop.time())
                    self._change_id()
        self._take_events()
        self.flush()

    def _change_id(self) -> None:
        if self.changes_id_with and self.quic._peer_cid_available:
            packet, self.changes_id_with = self.changes_id_with, b""
            self.quic.change_connection_id()
            self.quic.send_datagram_frame(packet)

    def _take_events(self) -> None:
        while (event := self.quic.next_event()) is not None:
            match event:
                case DatagramFrameReceived(packet):
                    self.packets.append(packet)
                case HandshakeCompleted():
                    self.is_open = True
                case PingAcknowledged():
                    self.pongs += 1
                case ConnectionTerminated():
                    self.end = event

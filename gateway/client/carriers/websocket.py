"""A WebSocket as a client's carrier. `websockets` speaks in coroutines: one task reads, another writes."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from gateway.client.carriers.stream import CLOSE_SECONDS, Feed
from gateway.client.errors import UnreachableError
from gateway.core.address import Address

FULL_BYTES = 1_048_576
"""Written and not yet sent: beyond it the client is told to wait."""


class ClientWebSocketCarrier:
    """Carries a session over a WebSocket. `text` means that its messages are text; else they are binary."""

    def __init__(self, socket: ClientConnection, feed: Feed, *, text: bool) -> None:
        self._socket = socket
        self._feed = feed
        self._text = text
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting_bytes = 0
        self._reading = asyncio.Event()
        self._reading.set()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def dial(
        cls,
        address: Address,
        tls: ssl.SSLContext | None,
        server_name: str | None,
        feed: Feed,
        *,
        text: bool,
        frame_bytes: int,
    ) -> None:
        """Raises OSError, UnreachableError."""
        try:
            socket = await connect_websocket(
                str(address),
                ssl=tls,
                server_hostname=server_name if tls is not None else None,
                proxy=None,
                compression=None,
                max_size=frame_bytes,
                open_timeout=None,
                close_timeout=CLOSE_SECONDS,
            )
        except InvalidHandshake as refused:
            raise UnreachableError(str(address), f"no WebSocket: {refused}") from refused
        carrier = cls(socket, feed, text=text)
        carrier._task = asyncio.create_task(carrier._carry())
        feed.connected(carrier)

    async def _carry(self) -> None:
        writer = asyncio.create_task(self._write_all())
        error: Exception | None = None
        try:
            async for message in self._socket:
                self._feed.receive(message.encode() if isinstance(message, str) else message)
                await self._reading.wait()
        except ConnectionClosed as closed:
            error = closed
        finally:
            writer.cancel()
            await self._socket.close()
            self._feed.lost(error)

    async def _write_all(self) -> None:
        with suppress(ConnectionClosed):
            while (data := await self._outgoing.get()) is not None:
                await self._socket.send(data.decode() if self._text else data)
                self._waiting_bytes -= len(data)
                if self._waiting_bytes <= FULL_BYTES // 2:
                    self._feed.resume_writing()
            await self._socket.close()

    def write(self, data: list[bytes]) -> None:
        for message in data:
            self._waiting_bytes += len(message)
            self._outgoing.put_nowait(message)
        if self._waiting_bytes > FULL_BYTES:
            self._feed.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._reading.set()
            self._outgoing.put_nowait(None)

    def abort(self) -> None:
        self._closing = True
        self._reading.set()
        self._socket.transport.abort()

    def pause_reading(self) -> None:
        if not self._closing:
            self._reading.clear()

    def resume_reading(self) -> None:
        self._reading.set()

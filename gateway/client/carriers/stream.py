"""Carries a client's bytes: TCP and TLS by asyncio's buffered protocol, WebSocket by `websockets`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from pathlib import Path
from typing import Protocol, cast

from gateway.core.address import Address

READ_BUFFER_BYTES = 262_144


class _Buffers(threading.local):
    """Shared by all clients of a thread, since what is read is consumed before the next read; not by two threads."""

    def __init__(self) -> None:
        self.read = memoryview(bytearray(READ_BUFFER_BYTES))


_buffers = _Buffers()

CLOSE_SECONDS = 2.0
"""A peer may take so long to see that we are done; then the connection is cut."""


class Feed(Protocol):
    """The client as its carrier sees it."""

    def connected(self, carrier: ClientCarrier) -> None: ...
    def receive(self, data: bytes | memoryview) -> None: ...
    def receive_eof(self) -> None:
        """Hears that the peer sends nothing more."""

    def lost(self, error: Exception | None) -> None:
        """Hears that nothing more can be sent either. Called once, last."""

    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class ClientCarrier(Protocol):
    def write(self, data: list[bytes]) -> None: ...
    def close(self) -> None:
        """Closes after what was written has gone out."""

    def abort(self) -> None:
        """Closes at once."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def tls_context(
    ca: Path | str | None = None, cert: Path | str | None = None, key: Path | str | None = None
) -> ssl.SSLContext:
    """Returns the TLS of a client. Raises OSError, ssl.SSLError.

    `ca` signed the peer's certificate; without it, the system's authorities count.
    """
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context


class ClientStreamCarrier(asyncio.BufferedProtocol):
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._buffer = _buffers.read
        self._transport: asyncio.Transport | None = None
        self._cut: asyncio.TimerHandle | None = None

    @classmethod
    async def dial(cls, address: Address, tls: ssl.SSLContext | None, server_name: str | None, feed: Feed) -> None:
        """Raises OSError (ssl.SSLError is one)."""
        await asyncio.get_running_loop().create_connection(
            lambda: cls(feed),
            address.host,
            address.port,
            ssl=tls,
            server_hostname=server_name if tls is not None else None,
            ssl_shutdown_timeout=CLOSE_SECONDS if tls is not None else None,
        )

    # -- asyncio's side ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._feed.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._feed.receive(self._buffer[:nbytes])

    def eof_received(self) -> bool:
        self._feed.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
        self._feed.lost(exc)

    def pause_writing(self) -> None:
        self._feed.pause_writing()

    def resume_writing(self) -> None:
        self._feed.resume_writing()

    # -- the client's side -------------------------------------------------------------------------------------

    def write(self, data: list[bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(data)

    def close(self) -> None:
        """Closes our half first. Closing with bytes unread would reset the connection, and lose what is under way."""
        transport = self._transport
        if transport is None or self._cut is not None or transport.is_closing():
            return
        self._cut = asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)
        if transport.can_write_eof():
            with contextlib.suppress(OSError):  # the other side has gone already: we shall hear of it
                transport.write_eof()
        else:
            transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

"""A session with its carrier and its clock: what the edge's connection is to a listener, for a client."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from collections.abc import Callable

from gateway.client.address import XmppAddress
from gateway.client.carriers.stream import ClientCarrier, ClientStreamCarrier
from gateway.client.errors import UnreachableError
from gateway.core.address import Address
from gateway.protocols.actions import Action, Delivery
from gateway.protocols.session import Session

REFUSED = "connection refused"
_NOBODY = f"[Errno {errno.ECONNREFUSED}]"

OnAction = Callable[[Action], None]


class Driver:
    """Drives a session over a carrier.

    `on_action` is called with what the session does; it may deliver more. `lost_by` is the error that ended the
    carrier.

    `text` means that messages are text, if the carrier keeps their bounds.
    """

    def __init__(self, session: Session, peer: str, on_action: OnAction, *, text: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._peer = peer
        self._on_action = on_action
        self._text = text
        self._carrier: ClientCarrier | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = False
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._answered = asyncio.Event()
        self.lost_by: Exception | None = None

    async def dial(self, address: Address, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        """Raises UnreachableError."""
        if not address.has_tls:
            tls = None
        elif tls is None:
            tls = ssl.create_default_context()
        try:
            if isinstance(address, XmppAddress):
                await self._dial_xmpp(address, tls)
            elif address.is_websocket:
                await self._dial_websocket(address, tls, server_name)
            else:
                await ClientStreamCarrier.dial(address, tls, server_name, self)
        except OSError as refused:
            raise UnreachableError(self._peer, why(refused)) from refused

    async def _dial_websocket(self, address: Address, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        """Imports late, for most clients never speak it."""
        from gateway.client.carriers.websocket import ClientWebSocketCarrier

        size = self._session.settings.frame_bytes
        await ClientWebSocketCarrier.dial(address, tls, server_name, self, text=self._text, frame_bytes=size)

    async def _dial_xmpp(self, address: XmppAddress, tls: ssl.SSLContext | None) -> None:
        """Imports late, likewise."""
        from gateway.client.carriers.xmpp import ClientXmppCarrier

        await ClientXmppCarrier.dial(address, tls or ssl.create_default_context(), self)

    # -- the client's side -------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._session.closed

    def deliver(self, delivery: Delivery) -> None:
        """Delivers to the session. The bytes of all deliveries of a turn of the loop are written at its end."""
        self._session.deliver(delivery, self._loop.time())
        self._pump_soon()

    def logged(self, tag: int) -> None:
        self._session.logged(tag, self._loop.time())
        self._pump_soon()

    async def writable(self) -> None:
        """The carrier takes more."""
        await self._writable.wait()

    async def answered(self, seconds: float) -> None:
        """Pings, and waits for the pong, or the end, for at most so long.

        The pong comes after the peer has read what was written before.
        """
        self._answered.clear()
        self._session.probe(self._loop.time())
        self._pump()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), seconds)

    async def close(self) -> None:
        """Says goodbye in the protocol's own words, and waits until the peer has seen it, but not for ever."""
        if not self._session.closed:
            self._session.drain(self._loop.time())
        self._pump()
        await self.wait_closed()

    async def abort(self) -> None:
        """No goodbye."""
        if self._carrier is not None:
            self._carrier.abort()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Waits until the connection is no more."""
        if self._carrier is not None:
            await self._gone.wait()

    def pause_reading(self) -> None:
        if self._carrier is not None:
            self._carrier.pause_reading()

    def resume_reading(self) -> None:
        if self._carrier is not None:
            self._carrier.resume_reading()

    # -- the carrier's side ------------------------------------------------------------------------------------

    def connected(self, carrier: ClientCarrier) -> None:
        self._carrier = carrier
        self._session.start(self._loop.time())
        self._pump()

    def receive(self, data: bytes | memoryview) -> None:
        self._session.receive(data, self._loop.time())
        self._pump()

    def receive_eof(self) -> None:
        self._session.receive_eof()
        self._pump()

    def lost(self, error: Exception | None) -> None:
        self.lost_by = error
        self.receive_eof()
        self._writable.set()
        self._gone.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- what the session wants --------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = True  # what is delivered meanwhile goes with the rest
        try:
            while actions := self._session.actions():
                for action in actions:
                    self._on_action(action)
        finally:
            self._scheduled = False
        if (data := self._session.data_to_send()) and self._carrier is not None:
            self._carrier.write(data)
        if not self._session.awaits_pong:
            self._answered.set()
        if not self._session.closed:
            self._set_timer()
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._carrier is not None:
            self._carrier.close()

    def _set_timer(self) -> None:
        """Keeps the earliest timer that was ever needed; one that comes too early only looks and sets the next."""
        due = self._session.get_timer()
        if due is None or (self._timer is not None and not self._timer.cancelled() and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._session.handle_timer(self._loop.time())
        self._pump()


def why(error: Exception) -> str:
    """Returns the error in words, for one line.

    >>> why(ConnectionRefusedError(111, "Connect call failed ('192.0.2.1', 5042)"))
    'connection refused'
    >>> why(OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] Connect call failed"))
    'connection refused'
    """
    match error:
        case ConnectionRefusedError():
            return REFUSED
        case OSError(errno=None) if _NOBODY in str(error):  # a name has several addresses, and all have refused
            return REFUSED
        case ssl.SSLCertVerificationError():
            return f"its certificate: {error.verify_message}"
        case ssl.SSLError():
            return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error) or type(error).__name__

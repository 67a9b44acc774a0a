"""Carries one peer behind an XMPP server: its devices, and what comes while its session is not read."""

from __future__ import annotations

import time
from collections import deque

from slixmpp import JID
from slixmpp.types import MessageTypes

from gateway.edge.carriers.carrier import Carrier, CarrierHost
from gateway.edge.carriers.xmpp_stream import ComponentStream
from gateway.edge.connection import Connection
from gateway.edge.metrics import ConnectionGauge

HELD_BYTES = 65_536
"""A session may leave so much unread of the stream that all share: as much as one message may have."""

MOST_DEVICES = 64
"""The most devices of one peer that are remembered."""


class XmppCarrier(Carrier):
    """Carries one XMPP peer. `own` is our address that it writes to. Answers go to the device that wrote last."""

    def __init__(
        self, host: CarrierHost, standing: ConnectionGauge, jid: str, deadline: float, stream: ComponentStream
    ) -> None:
        super().__init__(host, standing, jid, deadline)
        self._stream = stream
        self.own = self._to = JID()
        self._kind: MessageTypes = "normal"
        self._devices: dict[str, None] = {}
        self._present: set[str] = set()
        self._has_asked_presence = False
        self._paused = False
        self._held: deque[bytes] = deque()
        self._held_bytes = 0

    def wrote(self, sender: JID, own: JID, kind: MessageTypes) -> None:
        self._to, self.own, self._kind = sender, own, kind
        self._remember(sender.resource)

    def hear(self, message: bytes) -> bool:
        """False if it had to be dropped."""
        if not self._paused and self.connection is not None:
            self._receive(self.connection, message)
            return True
        if self._held_bytes + len(message) > HELD_BYTES:
            return False
        self._held.append(message)
        self._held_bytes += len(message)
        return True

    def begin(self) -> None:
        self._begin()

    def device_present(self, device: str) -> None:
        self._remember(device)
        self._present.add(device)

    def _remember(self, device: str) -> None:
        """The peer's server names its devices, and may invent as many as it likes: the oldest is forgotten."""
        self._devices.pop(device, None)
        self._devices[device] = None
        if len(self._devices) > MOST_DEVICES:
            oldest = next(iter(self._devices))
            del self._devices[oldest]
            self._present.discard(oldest)

    def presence_asked(self) -> None:
        """Notes that the peer's presence was asked for."""
        self._has_asked_presence = True

    def missed(self, device: str) -> bool:
        """Notes that a device is gone, or all devices if no name is given. Returns True if it was the last.

        That all are gone is also what servers say when we ask: Prosody as a receipt, others as long as nobody there
        shows himself to everyone. It proves nothing then, and who wrote to us is there.
        """
        if not device and self._has_asked_presence:
            self._has_asked_presence = False
            return False
        self._present.discard(device)
        self._devices.pop(device, None)
        return not device or not self._devices

    # -- the connection's side ---------------------------------------------------------------------------------

    @property
    def is_present(self) -> bool:
        return bool(self._present)

    def write(self, messages: list[bytes]) -> None:
        for message in messages:
            self._stream.send_text(self.own, self._to, self._kind, message.decode())

    def queued_bytes(self) -> int:
        return self._stream.queued_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes that wait to be taken. All peers behind the server share the bound of what waits to be written."""
        return self._held_bytes

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        while self._held and not self._paused and self.connection is not None:
            message = self._held.popleft()
            self._held_bytes -= len(message)
            self._receive(self.connection, message)

    def _receive(self, connection: Connection, message: bytes) -> None:
        began = time.thread_time()
        connection.receive(message, self._loop.time())
        connection.reading.account(time.thread_time() - began, is_filled=False)

    def close(self, reason: str) -> None:  # noqa: ARG002 - presence gives no reason
        if not self._closing:
            self._closing = True
            self._stream.tell_presence(self.own, self.address, "unavailable")
            self._loop.call_soon(self.connection_lost, None)

    def abort(self) -> None:
        self.close("")

    # -- what a carrier of bytes has ---------------------------------------------------------------------------

    def _connected(self) -> None:
        """Does nothing: the stream stands already."""

    def _received(self, data: memoryview, now: float) -> None:
        """Is not called: messages come by `hear`."""

    def _ended(self) -> None:
        if self.connection is not None:
            self.connection.receive_eof()

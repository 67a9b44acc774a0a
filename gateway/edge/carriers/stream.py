"""The carrier of TCP and TLS: the session's bytes as they are.

A TCP peer may close its half and wait for what it is owed. One that has gone altogether looks the same; but what it is
sent comes back as a reset, of which nobody hears who does not read any more. So it is pinged, and the socket asked.
"""

from __future__ import annotations

import socket

from gateway.edge.carriers.carrier import Carrier

PROBE_DELAY_SECONDS = 0.5
"""After a peer has closed its half: most answers have come by then, and it never hears a ping."""
RESET_SECONDS = 0.25


class StreamCarrier(Carrier):
    def _connected(self) -> None:
        self._begin()

    def _received(self, data: memoryview, now: float) -> None:
        if self.connection is not None:
            self.connection.receive(data, now)

    def _ended(self) -> None:
        if self.connection is not None:
            self.connection.receive_eof()

    def _may_still_read(self) -> bool:
        """TLS cannot be half closed."""
        if self.connection is not None and self.tls is None and self.connection.has_pending_replies:
            self.connection.begin_half_close()
            self._loop.call_later(PROBE_DELAY_SECONDS, self._probe_for_reset)
            return True
        return super()._may_still_read()

    def _probe_for_reset(self) -> None:
        if self.connection is not None and not self._closing:
            self.connection.ping_peer()
            self._loop.call_later(RESET_SECONDS, self._end_if_reset)

    def _end_if_reset(self) -> None:
        if self._transport is None or self._closing or self._transport.is_closing():
            return
        if self._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._ended()

    def write(self, messages: list[bytes]) -> None:
        self._put_out(messages[0] if len(messages) == 1 else b"".join(messages))

"""The carrier of TCP and TLS: the session's bytes as they are."""

from __future__ import annotations

from gateway.edge.carriers.carrier import Carrier


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
        if self.connection is not None and self.tls is None and self.connection.owes_word:
            self.connection.end_when_told()
            return True
        return super()._may_still_read()

    def write(self, messages: list[bytes]) -> None:
        self._put_out(messages[0] if len(messages) == 1 else b"".join(messages))

"""Datagrams on their way out. A full socket buffer holds them up for a moment; it does not lose them."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable

QUEUED_BYTES = 1_048_576
"""What may wait for the system to take it: some two thousand of the largest packets, milliseconds' worth."""
RETRY_SECONDS = 0.01
"""After ENOBUFS, which the poll does not tell the end of: the network card's queue is full, not the socket's."""

Done = Callable[[str], None]
"""Told "" when the system has taken the datagram, or what is in the way."""
_BUSY = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})


class DatagramsOut:
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._queue: deque[tuple[bytes, tuple[str, int], Done]] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, frame: bytes, address: str, done: Done) -> None:
        host, _, port = address.rpartition(":")
        if self._closed or not port.isdigit():
            done("the listener is gone" if self._closed else "no address of a peer")
            return
        to = host.strip("[]"), int(port)
        if self._queue:
            self._wait(frame, to, done)
            return
        busy, detail = self._try(frame, to)
        if busy:
            self._wait(frame, to, done)
            self._watch(detail)
        else:
            done(detail)

    def close(self) -> None:
        self._closed = True
        self._loop.remove_writer(self._socket.fileno())
        if self._timer is not None:
            self._timer.cancel()
        while self._queue:
            self._queue.popleft()[2]("the edge ended first")

    def _try(self, frame: bytes, to: tuple[str, int]) -> tuple[bool, str]:
        """Whether it has to wait; and the error, if there is one."""
        try:
            self._socket.sendto(frame, to)
        except (OSError, OverflowError, UnicodeError) as error:
            code = error.errno if isinstance(error, OSError) else None
            return code in _BUSY, f"not sent: {errno.errorcode.get(code or 0, type(error).__name__)}"
        return False, ""

    def _wait(self, frame: bytes, to: tuple[str, int], done: Done) -> None:
        if self._queued_bytes + len(frame) > QUEUED_BYTES:
            done("the system takes no more datagrams")
            return
        self._queue.append((frame, to, done))
        self._queued_bytes += len(frame)

    def _watch(self, detail: str) -> None:
        if detail.endswith("ENOBUFS"):
            self._timer = self._loop.call_later(RETRY_SECONDS, self._flush)
        else:
            self._loop.add_writer(self._socket.fileno(), self._flush)

    def _flush(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        while self._queue:
            frame, to, done = self._queue[0]
            busy, detail = self._try(frame, to)
            if busy:
                self._watch(detail)
                return
            self._queue.popleft()
            self._queued_bytes -= len(frame)
            done(detail)

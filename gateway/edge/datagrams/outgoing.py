"""Datagrams on their way out. A full socket buffer holds them up for a moment; it does not lose them."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.sending import Datagram, DatagramRun, NoAddress, OfT, sending

QUEUED_BYTES = 1_048_576
"""The most that waits for the system to take it: two thousand of the largest packets, milliseconds' worth."""
RETRY_SECONDS = 0.01
"""After ENOBUFS, which the poll does not tell the end of: the network card's queue is full, not the socket's."""

OnSent = Callable[[Sequence[Datagram[OfT]], str], None]
"""Called for each datagram once, of many together where it can be: "" once the system has it, or what is in the way."""
_BUSY = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})


class DatagramsOut:
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._sending = sending(sock)
        self._waiting: deque[tuple[Datagram[Any], OnSent[Any]]] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        """Sends the datagrams in their order, after all that were given before."""
        if self._closed:
            on_sent(datagrams, "the listener is gone")
            return
        while datagrams and not self._waiting:
            ended_count, detail = self._try(datagrams)
            if not ended_count:
                break
            on_sent(datagrams[:ended_count], detail)
            datagrams = datagrams[ended_count:]
        for datagram in datagrams:
            self._wait(datagram, on_sent)

    def send_run(self, run: DatagramRun) -> int:
        """Returns how many of them, from the first, have left: none while others wait."""
        return 0 if self._closed or self._waiting else self._sending.send_run(run)

    def close(self) -> None:
        self._closed = True
        self._loop.remove_writer(self._socket.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._end_first(len(self._waiting), "the edge ended first")

    def _try(self, datagrams: Sequence[Datagram[Any]]) -> tuple[int, str]:
        """Returns how many datagrams, from the first, are over, and what was in the way if that is an error.

        None are over if they have to wait; it is watched for how long.
        """
        try:
            return self._sending.send(datagrams), ""
        except NoAddress:
            return 1, "no address of a peer"
        except (OSError, OverflowError, UnicodeError) as error:
            code = error.errno if isinstance(error, OSError) else None
            if code in _BUSY:
                self._watch(code)
                return 0, ""
            return 1, f"not sent: {errno.errorcode.get(code or 0, type(error).__name__)}"

    def _wait(self, datagram: Datagram[OfT], on_sent: OnSent[OfT]) -> None:
        size = len(datagram[0])
        if self._waiting_bytes + size > QUEUED_BYTES:
            on_sent((datagram,), "the system takes no more datagrams")
            return
        self._waiting.append((datagram, on_sent))
        self._waiting_bytes += size

    def _watch(self, code: int | None) -> None:
        if code == errno.ENOBUFS:
            self._timer = self._loop.call_later(RETRY_SECONDS, self._go_on)
        else:
            self._loop.add_writer(self._socket.fileno(), self._go_on)

    def _go_on(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        while self._waiting:
            ended_count, detail = self._try([datagram for datagram, _ in islice(self._waiting, AT_ONCE)])
            if not ended_count:
                return
            self._end_first(ended_count, detail)

    def _end_first(self, count: int, detail: str) -> None:
        for _ in range(count):
            datagram, on_sent = self._waiting.popleft()
            self._waiting_bytes -= len(datagram[0])
            on_sent((datagram,), detail)

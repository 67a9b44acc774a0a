"""Datagrams on their way in: what waits in a socket is taken together, up to a bound, and kept in columns.

Where the system has it (Linux) one call of `recvmmsg` takes all of them. That costs half of what `recvfrom` costs for
each, and does not let go of the interpreter lock two hundred times a wake-up for the producer's thread to pick it up.
No Python object is made of a single datagram: its bytes are copied once, from the receive buffer to their place beside
the others.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Any, Protocol

import numpy as np

from gateway.core.address import host_port
from gateway.edge.datagrams.calls import ADDRESSES, AT_ONCE, Call, Slots, address_of, find_call

DATAGRAM_BYTES = 2048
"""The largest packet of any datagram protocol is 548 bytes. Longer ones are cut here and refused in the stream."""

SocketAddress = Hashable
"""The address and port of a peer: equal for the same peer, and `DatagramsIn.peer` turns it into text."""


@dataclass(slots=True)
class ReceivedDatagrams:
    """Datagrams that were received together: sender and length of each, and their bytes side by side."""

    senders: Sequence[SocketAddress]
    lengths: Sequence[int]
    data: bytes

    def __len__(self) -> int:
        return len(self.lengths)

    def frames(self) -> list[bytes]:
        """Returns the bytes of each datagram by itself."""
        ends = list(accumulate(self.lengths))
        return [self.data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def select(self, are_chosen: Sequence[bool], frames: Sequence[bytes]) -> ReceivedDatagrams:
        """Returns some of the datagrams, in their order. `frames` are those of all, which the caller has cut."""
        return ReceivedDatagrams(
            list(compress(self.senders, are_chosen)),
            list(compress(self.lengths, are_chosen)),
            b"".join(compress(frames, are_chosen)),
        )


NOTHING = ReceivedDatagrams((), (), b"")


class DatagramsIn(Protocol):
    def receive(self) -> ReceivedDatagrams:
        """Returns what waits now; raises OSError for the error of an earlier send, and goes on afterwards."""

    def peer(self, sender: Any, /) -> str:
        """Returns the sender's address as `host:port`."""


def datagrams_in(sock: socket.socket) -> DatagramsIn:
    """Returns the best way that this system has. `sock` does not block."""
    return BatchedReceiver(sock, _recvmmsg) if _recvmmsg is not None else SingleReceiver(sock)


class SingleReceiver:
    """Takes datagrams one by one with `recvfrom`, which every system has."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def receive(self) -> ReceivedDatagrams:
        datagrams: list[tuple[bytes, SocketAddress]] = []
        receive, add = self._socket.recvfrom, datagrams.append
        try:
            for _ in range(AT_ONCE):
                add(receive(DATAGRAM_BYTES))
        except BlockingIOError:
            pass
        except OSError:
            if not datagrams:
                raise
        frames = [frame for frame, _ in datagrams]
        return ReceivedDatagrams([sender for _, sender in datagrams], list(map(len, frames)), b"".join(frames))

    def peer(self, sender: tuple[str, int]) -> str:
        return host_port(*sender[:2])


class BatchedReceiver:
    """Takes datagrams with `recvmmsg`: each has a stretch of its own in one buffer."""

    def __init__(self, sock: socket.socket, recvmmsg: Call) -> None:
        self._socket = sock
        self._recvmmsg = recvmmsg
        self._address = ADDRESSES[sock.family]
        self._buffer = bytearray(AT_ONCE * DATAGRAM_BYTES)
        self._view = memoryview(self._buffer)
        self._rows = np.frombuffer(self._buffer, np.uint8).reshape(AT_ONCE, DATAGRAM_BYTES)
        self._slots = Slots(sock.family)
        first = address_of(self._buffer)
        self._slots.put(range(first, first + len(self._buffer), DATAGRAM_BYTES), [DATAGRAM_BYTES] * AT_ONCE)
        is_v4 = sock.family == socket.AF_INET
        self._v4_senders = memoryview(self._slots.places).cast("Q")[::2] if is_v4 else None

    def receive(self) -> ReceivedDatagrams:
        try:
            count = self._recvmmsg(self._socket.fileno(), self._slots.at, AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return NOTHING
        lengths = self._slots.received[:count].tolist()
        return ReceivedDatagrams(self._senders(count), lengths, self._side_by_side(lengths))

    def _side_by_side(self, lengths: list[int]) -> bytes:
        first = lengths[0]
        if lengths.count(first) == len(lengths):
            return self._rows[: len(lengths), :first].tobytes()
        starts = range(0, len(self._buffer), DATAGRAM_BYTES)
        return b"".join([self._view[at : at + length] for at, length in zip(starts, lengths, strict=False)])

    def _senders(self, count: int) -> Sequence[SocketAddress]:
        """The first eight octets of an IPv4 socket address hold family, port and host; they are read as one number."""
        if self._v4_senders is not None:
            return self._v4_senders[:count].tolist()
        size = self._address.size
        addresses = bytes(self._slots.places[: count * size])
        return [addresses[at : at + size] for at in range(0, count * size, size)]

    def peer(self, sender: int | bytes) -> str:
        packed = sender.to_bytes(8, sys.byteorder) if isinstance(sender, int) else sender
        port, host = self._address.unpack(packed.ljust(self._address.size, b"\0"))
        return host_port(socket.inet_ntop(self._socket.family, host), port)


_recvmmsg = find_call("recvmmsg", None)

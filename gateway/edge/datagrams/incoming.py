"""Datagrams on their way in: what waits in a socket, up to a bound, each with where it came from.

Where the system has it (Linux) one call of `recvmmsg` takes all of them. That costs half of what `recvfrom` costs for
each, and does not let go of the interpreter lock two hundred times a wake-up for the producer's thread to pick it up.
"""

from __future__ import annotations

import socket
from collections.abc import Hashable
from typing import Any, Protocol

from gateway.address import host_port
from gateway.edge.datagrams.calls import ADDRESSES, AT_ONCE, Call, Slots, address_of, find_call

DATAGRAM_BYTES = 2048
"""The largest packet of any datagram protocol is 548 bytes. Longer ones are cut here and refused in the stream."""

Place = Hashable
"""Of a peer: the same value for the same address and port, and `peer` says which."""


class DatagramsIn(Protocol):
    def receive(self) -> list[tuple[bytes, Place]]:
        """What waits now; raises OSError for the error of an earlier send, and goes on afterwards."""

    def peer(self, place: Any, /) -> str:
        """`host:port`."""


def datagrams_in(sock: socket.socket) -> DatagramsIn:
    """`sock` does not block."""
    return ManyAtOnce(sock, _recvmmsg) if _recvmmsg is not None else OneByOne(sock)


class OneByOne:
    """By `recvfrom`, which every system has."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def receive(self) -> list[tuple[bytes, Place]]:
        datagrams: list[tuple[bytes, Place]] = []
        receive, add = self._socket.recvfrom, datagrams.append
        try:
            for _ in range(AT_ONCE):
                add(receive(DATAGRAM_BYTES))
        except BlockingIOError:
            pass
        except OSError:
            if not datagrams:
                raise
        return datagrams

    def peer(self, place: tuple[str, int]) -> str:
        return host_port(*place[:2])


class ManyAtOnce:
    """By `recvmmsg`: each datagram has a stretch of its own in one buffer."""

    def __init__(self, sock: socket.socket, recvmmsg: Call) -> None:
        self._socket = sock
        self._recvmmsg = recvmmsg
        self._address = ADDRESSES[sock.family]
        self._bodies = bytearray(AT_ONCE * DATAGRAM_BYTES)
        self._view = memoryview(self._bodies)
        self._slots = Slots(sock.family)
        first = address_of(self._bodies)
        self._slots.put(range(first, first + len(self._bodies), DATAGRAM_BYTES), [DATAGRAM_BYTES] * AT_ONCE)

    def receive(self) -> list[tuple[bytes, Place]]:
        try:
            count = self._recvmmsg(self._socket.fileno(), self._slots.at, AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return []
        size, view = self._address.size, self._view
        starts = range(0, count * DATAGRAM_BYTES, DATAGRAM_BYTES)
        lengths = self._slots.received[:count]
        bodies = [view[at : at + length].tobytes() for at, length in zip(starts, lengths, strict=True)]
        places = bytes(self._slots.places[: count * size])
        return list(zip(bodies, [places[at : at + size] for at in range(0, count * size, size)], strict=True))

    def peer(self, place: bytes) -> str:
        port, packed = self._address.unpack(place)
        return host_port(socket.inet_ntop(self._socket.family, packed), port)


_recvmmsg = find_call("recvmmsg", None)

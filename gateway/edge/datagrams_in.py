"""Datagrams on their way in: what waits in a socket, up to a bound, each with where it came from.

Where the system has it (Linux) one call of `recvmmsg` takes all of them. That costs half of what `recvfrom` costs for
each, and does not let go of the interpreter lock two hundred times a wake-up for the producer's thread to pick it up.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from gateway.edge.peer import host_port

MOST = 256
"""Taken at once; then others have their turn."""
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
            for _ in range(MOST):
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
    """By `recvmmsg`: each datagram has a slot of its own in one buffer, its address one in another."""

    def __init__(self, sock: socket.socket, recvmmsg: Callable[..., int]) -> None:
        self._socket = sock
        self._recvmmsg = recvmmsg
        self._address = _ADDRESSES[sock.family]
        self._bodies = bytearray(MOST * DATAGRAM_BYTES)
        self._places = bytearray(MOST * self._address.size)
        self._slots = self._lay_out()
        stride, at = ctypes.sizeof(_Slot) // 4, _Slot.length.offset // 4
        self._lengths = memoryview(self._slots).cast("B").cast("I")[at::stride]
        self._at = ctypes.addressof(self._slots)
        self._view = memoryview(self._bodies)

    def _lay_out(self) -> ctypes.Array[_Slot]:
        bodies, places = _address_of(self._bodies), _address_of(self._places)
        size = self._address.size
        self._vectors = (_Vector * MOST)(*(_Vector(bodies + i * DATAGRAM_BYTES, DATAGRAM_BYTES) for i in range(MOST)))
        vectors, step = ctypes.addressof(self._vectors), ctypes.sizeof(_Vector)
        return (_Slot * MOST)(*(_Slot(_Message(places + i * size, size, vectors + i * step, 1)) for i in range(MOST)))

    def receive(self) -> list[tuple[bytes, Place]]:
        count = self._recvmmsg(self._socket.fileno(), self._at, MOST, socket.MSG_DONTWAIT, None)
        if count < 0:
            code = ctypes.get_errno()
            if code in {errno.EAGAIN, errno.EINTR}:
                return []
            raise OSError(code, os.strerror(code))
        size, view = self._address.size, self._view
        starts = range(0, count * DATAGRAM_BYTES, DATAGRAM_BYTES)
        bodies = [view[at : at + length].tobytes() for at, length in zip(starts, self._lengths[:count], strict=True)]
        places = bytes(self._places[: count * size])
        return list(zip(bodies, [places[at : at + size] for at in range(0, count * size, size)], strict=True))

    def peer(self, place: bytes) -> str:
        port, packed = self._address.unpack(place)
        return host_port(socket.inet_ntop(self._socket.family, packed), port)


_ADDRESSES = {socket.AF_INET: struct.Struct("!2xH4s8x"), socket.AF_INET6: struct.Struct("!2xH4x16s4x")}
"""sockaddr_in and sockaddr_in6, as far as they name a peer."""


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct msghdr. The system writes an address's length back: it is that of its family, always."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Slot(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (("message", _Message), ("length", ctypes.c_uint))


def _address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _find_recvmmsg() -> Callable[..., int] | None:
    """`PyDLL`, for the call never waits: what it takes is copied before another thread would have got the lock."""
    try:
        found = ctypes.PyDLL(None, use_errno=True).recvmmsg
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
    found.restype = ctypes.c_int
    return found


_recvmmsg = _find_recvmmsg()

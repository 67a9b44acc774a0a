"""The system's calls for many datagrams at once (Linux has them), and the structs that they read and fill."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from array import array
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 256
"""Taken or sent with one call; then others have their turn."""
ADDRESSES: dict[int, struct.Struct] = {
    socket.AF_INET: struct.Struct("!2xH4s8x"),
    socket.AF_INET6: struct.Struct("!2xH4x16s4x"),
}
"""sockaddr_in and sockaddr_in6, as far as they name a peer; the family stands before, in the machine's own order."""

Call = Callable[[int, int, int], int]
"""Socket, the first slot's address, how many: how many were taken. Raises OSError if the first cannot be sent."""


class Vector(ctypes.Structure):
    """The system's `struct iovec`."""

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


class Slot(ctypes.Structure):
    """The system's `struct mmsghdr`."""

    _fields_ = (("message", _Message), ("length", ctypes.c_uint))


class Slots:
    """Holds `AT_ONCE` slots. Each has an address, in `places`, and a stretch of bytes wherever it is `put`."""

    def __init__(self, family: int) -> None:
        size = ADDRESSES[family].size
        self.places = bytearray(AT_ONCE * size)
        self._vectors = (Vector * AT_ONCE)()
        places, vectors, step = address_of(self.places), ctypes.addressof(self._vectors), ctypes.sizeof(Vector)
        self._slots = (Slot * AT_ONCE)(
            *(Slot(_Message(places + i * size, size, vectors + i * step, 1)) for i in range(AT_ONCE))
        )
        self.at = ctypes.addressof(self._slots)
        stride, at = ctypes.sizeof(Slot) // 4, Slot.length.offset // 4
        self.received = memoryview(self._slots).cast("B").cast("I")[at::stride]
        words = memoryview(self._vectors).cast("B").cast("L")  # size_t, and as large as a pointer
        self._bases, self._lengths = words[0::2], words[1::2]

    def put(self, bases: Iterable[int], lengths: Iterable[int]) -> None:
        """Points the first slots at these bytes, or at the room for them."""
        for column, values in ((self._bases, array("L", bases)), (self._lengths, array("L", lengths))):
            column[: len(values)] = values


_UDP_SEGMENT = 103
_CONTROL = struct.Struct("NiiH6x")
"""struct cmsghdr with the two bytes of UDP_SEGMENT."""


class RunSlots:
    """Holds `AT_ONCE` slots for messages whose bytes stand in one buffer. A message may hold several datagrams."""

    def __init__(self, family: int) -> None:
        self._place_bytes = ADDRESSES[family].size
        self._places = np.zeros(0, np.uint8)
        self._data_at = 0
        self._vectors = np.zeros(AT_ONCE, np.dtype(Vector))
        self._vectors_at = self._vectors.ctypes.data
        self._slots = np.zeros(AT_ONCE, np.dtype(Slot))
        self.at: int = self._slots.ctypes.data
        messages = self._slots["message"]
        messages["name_length"] = self._place_bytes
        self._names, self._message_vectors = messages["name"], messages["vectors"]
        self._counts, self._control_lengths = messages["vector_count"], messages["control_length"]
        cut = _CONTROL.pack(_CONTROL.size - 6, socket.IPPROTO_UDP, _UDP_SEGMENT, 0)
        self._controls = np.frombuffer(bytearray(cut * AT_ONCE), np.uint8)
        self._segment_bytes = self._controls.view(np.uint16)[_CONTROL.size // 2 - 4 :: _CONTROL.size // 2]
        messages["control"] = self._controls.ctypes.data + np.arange(AT_ONCE) * _CONTROL.size

    def use(self, data: bytes, places: bytes) -> None:
        """Sets the buffer of the messages that follow, and the socket addresses of their peers, side by side."""
        self._places = np.frombuffer(places, np.uint8)
        self._places_at = self._places.ctypes.data
        self._data = np.frombuffer(data, np.uint8)
        self._data_at = self._data.ctypes.data

    def put(
        self, starts: NDArray[np.int64], lengths: NDArray[np.int64], to: NDArray[np.intp], heads: NDArray[np.intp]
    ) -> int:
        """Fills the first slots and returns how many; `heads` are the datagrams that begin a message."""
        count, messages = len(starts), len(heads)
        self._vectors["base"][:count] = starts + self._data_at
        self._vectors["length"][:count] = lengths
        self._names[:messages] = to[heads] * self._place_bytes + self._places_at
        self._message_vectors[:messages] = heads * self._vectors.itemsize + self._vectors_at
        counts = self._counts[:messages]
        counts[:-1] = heads[1:] - heads[:-1]
        counts[-1] = count - heads[-1]
        self._segment_bytes[:messages] = lengths[heads]
        self._control_lengths[:messages] = np.where(counts > 1, _CONTROL.size, 0)
        return messages


def address_of(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def find_call(name: str, *more: object) -> Call | None:
    """Returns a call of the system; None if it is missing. `more` are the types of arguments after the flags.

    It is a `PyDLL`, because the call never waits: what it takes is copied before another thread would have got the
    lock.
    """
    try:
        function = ctypes.PyDLL(None, use_errno=True)[name]
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, *(ctypes.c_void_p for _ in more))
    function.restype = ctypes.c_int

    def call(descriptor: int, slots: int, count: int) -> int:
        count_taken: int = function(descriptor, slots, count, socket.MSG_DONTWAIT, *more)
        if count_taken < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return count_taken

    return call

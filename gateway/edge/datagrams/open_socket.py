"""UDP sockets of listeners: bound, with a buffer that holds a burst, and with what the kernel dropped all the same."""

from __future__ import annotations

import logging
import socket
import struct

from gateway.config import Listener
from gateway.core.errors import SetupError
from gateway.edge.metrics import ListenerMetrics

log = logging.getLogger(__name__)

RECEIVE_BUFFER_BYTES = 32 * 1024 * 1024
"""Holds about 50,000 datagrams: two seconds of 25,000/s, should the loop be busy or the cores be all taken."""

_SO_RCVBUFFORCE = 33
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_WRAP = 1 << 32
"""The kernel counts drops in 32 bits."""


class KernelDrops:
    """The kernel's own count for a socket; asked for once a second, whether datagrams come or not."""

    def __init__(self, sock: socket.socket, metrics: ListenerMetrics) -> None:
        self._socket = sock
        self._counter = metrics.kernel_dropped
        self._dropped = 0

    def count(self) -> None:
        dropped = kernel_drops(self._socket)
        if dropped is None:
            return
        self._counter.inc((dropped - self._dropped) % _WRAP)
        self._dropped = dropped


def kernel_drops(sock: socket.socket) -> int | None:
    """Returns how many datagrams this socket's full buffer has cost so far: the last of SO_MEMINFO's counters.

    None means that the kernel does not say, or the socket is closed: that is no number a count could go back to.
    """
    try:
        info = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
    except OSError:
        return None
    drops: int | None = _MEMINFO.unpack(info)[-1] if len(info) == _MEMINFO.size else None
    return drops


def bind(listener: Listener) -> socket.socket:
    """Raises SetupError."""
    address = listener.address
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        _ask_for_buffer(sock)
        sock.bind((address.host, address.port))
    except OSError as error:
        sock.close()
        raise SetupError(f"listener {listener.name}: cannot listen on {address}: {error.strerror}") from error
    granted = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    bound = address.at_port(sock.getsockname()[1])
    log.info("listening on %s, receive buffer %d bytes (asked for %d)", bound, granted, RECEIVE_BUFFER_BYTES)
    return sock


def granted_buffer_bytes() -> int:
    """Returns how much of `RECEIVE_BUFFER_BYTES` a listener of this process would get. The kernel tells it doubled."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        _ask_for_buffer(sock)
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def _ask_for_buffer(sock: socket.socket) -> None:
    """The first way goes beyond `net.core.rmem_max`, for who may; the other as far as that."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

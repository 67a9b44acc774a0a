"""UDP sockets as generator and receiver use them."""

from __future__ import annotations

import socket
from collections.abc import Callable

from gateway.client import UnreachableError
from gateway.client.driver import why
from gateway.core.address import Address, parse_address

RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""6,500 datagrams of 200 bytes: what comes while the two cores are somebody else's for a few tens of milliseconds."""


def datagram_socket(url: str) -> socket.socket:
    """Returns a socket that is connected to that address. Raises UnreachableError."""
    return _socket(parse_address(url), socket.socket.connect)


def bound_socket(url: str) -> socket.socket:
    """Returns a socket that is bound to that address. Raises UnreachableError."""
    return _socket(parse_address(url), socket.socket.bind)


def _socket(address: Address, place: Callable[[socket.socket, tuple[str, int]], None]) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    try:
        place(sock, (address.host, address.port))
    except OSError as failed:
        sock.close()
        raise UnreachableError(str(address), why(failed)) from failed
    return sock

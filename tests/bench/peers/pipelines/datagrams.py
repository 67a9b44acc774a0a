"""The two ends of every pipeline here that is written in Python."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.bench.peers.pipelines.settings import HOST

RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
DATAGRAMS_PER_WAKE_UP = 256
DATAGRAM_BYTES = 2048


def listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    sock.bind((HOST, port))
    sock.setblocking(False)
    return sock


def drain(sock: socket.socket, take: Callable[[bytes], object]) -> None:
    """What waits, up to a bound: an event loop's datagram transport costs ten times as much."""
    try:
        for _ in range(DATAGRAMS_PER_WAKE_UP):
            take(sock.recv(DATAGRAM_BYTES))
    except BlockingIOError:
        return


def sender(port: int) -> Callable[[bytes], None]:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((HOST, port))

    def send(packet: bytes) -> None:
        try:
            sock.send(packet)
        except ConnectionRefusedError:  # the receiver of the run before is gone
            return

    return send

"""Before a contender is measured: does it do the work? One that forwards anything would win."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time

from gateway.bench.marker import Marker
from gateway.bench.packets import PacketTemplate, first_message_id
from gateway.bench.sockets import bound_socket, datagram_socket
from gateway.client import PacketKey

ATTEMPTS = 80
ATTEMPT_SECONDS = 0.5
LAST_SECONDS = 10.0


def check_work(name: str, listen: str, deliver: str, key: PacketKey, size: int) -> None:
    """A packet sent twice comes once, and one whose HMAC is wrong does not come. Raises RuntimeError."""
    first_id = first_message_id(time.time_ns())
    template = PacketTemplate(key.signer, "bench.proof", size, Marker(secrets.token_hex(2)), first_id)
    with datagram_socket(listen) as out, bound_socket(deliver) as back:
        for attempt in range(ATTEMPTS):
            _send(out, template.packet(attempt, int(time.time())))
            if _received(back, ATTEMPT_SECONDS) is not None:
                break
        else:
            raise RuntimeError(f"{name}: nothing came through within {ATTEMPTS * ATTEMPT_SECONDS:g} s")
        once, honest, last = (template.packet(ATTEMPTS + number, int(time.time())) for number in range(3))
        forged = honest.replace(b"xx", b"xy", 1)
        for packet in (once, once, forged, last):
            _send(out, packet)
        came = sorted(packet for packet in _until(back, last) if packet in (once, forged, last))
    if came != sorted((once, last)):
        raise RuntimeError(f"{name}: does not verify and deduplicate: {len(came)} packets came through instead of 2")


def _until(back: socket.socket, last: bytes) -> list[bytes]:
    """All up to the last one, and what a pipeline of many threads lets come after it."""
    came: list[bytes] = []
    while (packet := _received(back, ATTEMPT_SECONDS if last in came else LAST_SECONDS)) is not None:
        came.append(packet)
    return came


def _received(back: socket.socket, seconds: float) -> bytes | None:
    back.settimeout(seconds)
    try:
        return back.recv(2048)
    except TimeoutError:
        return None


def _send(out: socket.socket, packet: bytes) -> None:
    """Until the pipeline listens its port is refused."""
    with contextlib.suppress(ConnectionRefusedError):
        out.send(packet)

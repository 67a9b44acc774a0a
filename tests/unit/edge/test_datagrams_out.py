"""Datagrams on their way out: a full buffer holds them up, and what never goes is told."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator

import pytest

from gateway.edge.datagrams_out import QUEUED_BYTES, DatagramsOut
from tests.unit.edge.running import in_a_loop, until

PEER = "127.0.0.1:9"


class Busy:
    """A socket that the system takes nothing from for a while; its file is a real one's."""

    def __init__(self, real: socket.socket, error: int) -> None:
        self._real = real
        self._error = error
        self.is_busy = True
        self.sent: list[tuple[bytes, tuple[str, int]]] = []

    def fileno(self) -> int:
        return self._real.fileno()

    def sendto(self, frame: bytes, to: tuple[str, int]) -> None:
        if self.is_busy:
            raise OSError(self._error, "busy")
        self.sent.append((frame, to))


@pytest.fixture
def real() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.setblocking(False)
        yield made


class Told(list[str]):
    """What became of each datagram, in order."""

    def of(self, name: str) -> Callable[[str], None]:
        return lambda detail: self.append(f"{name}: {detail or 'sent'}")


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.ENOBUFS])
@in_a_loop
async def test_a_full_buffer_holds_datagrams_up_and_keeps_their_order(error: int, real: socket.socket) -> None:
    busy, told = Busy(real, error), Told()
    out = DatagramsOut(busy)  # type: ignore[arg-type]
    for name in ("one", "two", "three"):
        out.send(name.encode(), PEER, told.of(name))
    await asyncio.sleep(0.02)
    assert told == []
    busy.is_busy = False
    await until(lambda: len(told) == 3)
    assert told == ["one: sent", "two: sent", "three: sent"]
    assert [frame for frame, _ in busy.sent] == [b"one", b"two", b"three"]
    out.close()


@in_a_loop
async def test_so_much_may_wait_and_no_more(real: socket.socket) -> None:
    busy, told = Busy(real, errno.EAGAIN), Told()
    out = DatagramsOut(busy)  # type: ignore[arg-type]
    out.send(bytes(QUEUED_BYTES - 1), PEER, told.of("most"))
    out.send(b"x", PEER, told.of("last"))
    assert told == []
    out.send(b"x", PEER, told.of("one more"))
    assert told == ["one more: the system takes no more datagrams"]
    out.close()
    assert told[1:] == ["most: the edge ended first", "last: the edge ended first"]


@in_a_loop
async def test_after_the_end_nothing_is_sent(real: socket.socket) -> None:
    told = Told()
    out = DatagramsOut(real)
    out.close()
    out.send(b"x", PEER, told.of("late"))
    assert told == ["late: the listener is gone"]


@pytest.mark.parametrize("address", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", "no host:9"])
@in_a_loop
async def test_what_is_no_address_is_told(address: str, real: socket.socket) -> None:
    told = Told()
    out = DatagramsOut(real)
    out.send(b"x", address, told.of("one"))
    assert told[0].startswith(("one: not sent", "one: no address"))
    out.close()


@in_a_loop
async def test_a_datagram_too_long_for_the_system_costs_no_other(real: socket.socket) -> None:
    told = Told()
    out = DatagramsOut(real)
    out.send(bytes(70_000), PEER, told.of("long"))
    out.send(b"short", PEER, told.of("short"))
    assert told == ["long: not sent: EMSGSIZE", "short: sent"]
    out.close()

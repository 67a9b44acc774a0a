"""The network between peers and edges, which may be bad for a while: streams are slow and break, datagrams are lost,
repeated, late and in another order.

Relays in front of the edges' ports, for a kernel need not have an emulator, and one that has it wants root.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536

Address = tuple[str, int]


@dataclass(frozen=True)
class Weather:
    """`delay_seconds`: at least and at most, of each chunk and each datagram. `lost`, `repeated`: shares of datagrams.
    `broken`: the share of a stream's chunks that are its last."""

    delay_seconds: tuple[float, float] = (0.0, 0.0)
    lost: float = 0.0
    repeated: float = 0.0
    broken: float = 0.0


CLEAR = Weather()
STORM = Weather(delay_seconds=(0.01, 0.3), lost=0.2, repeated=0.1, broken=0.02)


class Network:
    """Ports are there at once; `serve` is what carries."""

    def __init__(self, chance: random.Random) -> None:
        self.weather = CLEAR
        self.broken = self.lost = 0
        self.forwarded: Counter[int] = Counter()
        """Datagrams to each port."""
        self._chance = chance
        self._streams: list[tuple[socket.socket, int, bool]] = []
        self._datagrams: list[tuple[socket.socket, int]] = []

    def stream(self, port: int, *, breaks: bool = True) -> int:
        """In front of that one. Without `breaks` it is slow at worst."""
        mine = socket.create_server((HOST, 0))
        self._streams.append((mine, port, breaks))
        return int(mine.getsockname()[1])

    def datagrams(self, port: int) -> int:
        mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mine.bind((HOST, 0))
        self._datagrams.append((mine, port))
        return int(mine.getsockname()[1])

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            for mine, port in self._datagrams:
                transport, _ = await loop.create_datagram_endpoint(partial(_Near, self, port), sock=mine)
                stack.callback(transport.close)
            for mine, port, breaks in self._streams:
                server = await asyncio.start_server(_Stream(self, port, breaks).carry, sock=mine)
                stack.callback(server.close)
            await asyncio.Event().wait()

    # -- what becomes of it ------------------------------------------------------------------------------------

    def delay(self) -> float:
        return self._chance.uniform(*self.weather.delay_seconds)

    def breaks(self) -> bool:
        broken = self._chance.random() < self.weather.broken
        self.broken += broken
        return broken

    def send(self, put: Callable[[], None]) -> None:
        """One datagram: now, later, twice or never. Each copy has its own delay, so they overtake each other."""
        drawn = self._chance.random()
        if drawn < self.weather.lost:
            self.lost += 1
            return
        for _ in range(2 if drawn > 1 - self.weather.repeated else 1):
            if delay := self.delay():
                asyncio.get_running_loop().call_later(delay, put)
            else:
                put()


class _Stream:
    """One port; each connection has two directions, which end together."""

    def __init__(self, network: Network, port: int, breaks: bool) -> None:
        self._network, self._port, self._breaks = network, port, breaks

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(HOST, self._port)
            writers.append(far_writer)
            await _first(self._pump(reader, far_writer), self._pump(far_reader, writer))
        for one in writers:
            one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if self._breaks and self._network.breaks():
                    writer.transport.abort()
                    return
                await asyncio.sleep(self._network.delay())
                writer.write(chunk)
                await writer.drain()


async def _first(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them is over; then so are the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Near(asyncio.DatagramProtocol):
    """What devices send to; each gets a socket of its own towards the edge, as behind a router."""

    def __init__(self, network: Network, port: int) -> None:
        self._network, self._port = network, port
        self._far: dict[Address, asyncio.Future[asyncio.DatagramTransport]] = {}

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for far in self._far.values():
            far.add_done_callback(lambda made: made.result().close())

    def datagram_received(self, data: bytes, address: Address) -> None:
        far = self._far.get(address)
        if far is None:
            far = self._far[address] = asyncio.ensure_future(self._open(address))
        far.add_done_callback(lambda made: self._network.send(lambda: self._forward(made.result(), data)))

    def _forward(self, far: asyncio.DatagramTransport, data: bytes) -> None:
        self._network.forwarded[self._port] += 1
        far.sendto(data)

    async def _open(self, near: Address) -> asyncio.DatagramTransport:
        def back(data: bytes) -> None:
            self._network.send(lambda: self._transport.sendto(data, near))

        loop = asyncio.get_running_loop()
        made, _ = await loop.create_datagram_endpoint(lambda: _Far(back), remote_addr=(HOST, self._port))
        return made


class _Far(asyncio.DatagramProtocol):
    def __init__(self, back: Callable[[bytes], None]) -> None:
        self._back = back

    def datagram_received(self, data: bytes, address: Address) -> None:
        self._back(data)

"""Talks to the mesh from outside while something is done to it, as a process in the client's network.

python -m tests.cluster.load SETTINGS

    says `flowing` once everything comes
    told to stop, says how many it has sent
    told which of them were accepted, ends when they have come (or no more does), with a record

fresh   signed datagrams, each from a port of its own: as from many devices
fixed   signed datagrams from one port: the network remembers where they went
tcp     over hsp, acknowledged one by one; a few to a session, then a new one. What was not acknowledged is sent again
and a subscriber over yamp, which subscribes again whenever its session ends
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gateway.auth.keyring import GatewayIdentity
from gateway.client import StreamClient, connect
from gateway.client.errors import ClientError
from gateway.core.content import JSON
from gateway.protocols.actions import Outcome
from tests.integration.emm_peer import Device

SUBJECT = "load"
FRESH, FIXED, TCP = "fresh", "fixed", "tcp"
STREAMS = (FRESH, FIXED, TCP)
PAUSE_SECONDS = 0.1
FLOWING = 50
"""Of each stream, with the subscriber: then it flows."""
A_SESSION = 10
"""Messages; then the publisher connects anew."""
RETRY_SECONDS = 0.2
CONFIRM_SECONDS = 20.0
FINISH_SECONDS = 120.0
QUIET_SECONDS = 30.0
"""After the last that came: what is accepted is on its way at once."""


@dataclass(frozen=True)
class Settings:
    """`secret`: what the devices' keys are made of. `run`: stands in each subject, so that runs are told apart."""

    host: str
    secret: str
    run: str
    udp: int = 5050
    hsp: int = 5041
    yamp: int = 5042


@dataclass
class Record:
    """Numbers by stream; times are of the clock that all processes here share (`time.monotonic`)."""

    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    acknowledged: list[int] = field(default_factory=list)
    received: dict[str, dict[int, int]] = field(default_factory=lambda: {name: Counter() for name in STREAMS})
    sessions: int = 0
    refused: int = 0
    subscriptions: int = 0
    acknowledged_at: list[float] = field(default_factory=list)
    received_at: list[float] = field(default_factory=list)


def device(name: str, settings: Settings) -> Device:
    """The same keys wherever it is made."""
    made = [hashlib.sha256(f"{name} {part} {settings.secret}".encode()).digest() for part in ("node", "hmac", "seed")]
    identity = GatewayIdentity(made[0][:16], bytes.fromhex("00000001"), made[2], made[1])
    return Device(settings.udp, identity=identity, host=settings.host)


class Load:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.record = Record()
        self._stopping = False
        self._subscribed = asyncio.Event()

    async def run(self) -> None:
        subscriber = asyncio.create_task(self._subscriber())
        await self._subscribed.wait()
        sending = [asyncio.create_task(sender) for sender in (self._fresh(), self._fixed(), self._tcp())]
        everything = asyncio.create_task(self._flowing())
        await asyncio.to_thread(sys.stdin.readline)
        self._stopping = True
        async with asyncio.timeout(FINISH_SECONDS):
            await asyncio.gather(*sending)
        print(json.dumps(self.record.sent), flush=True)
        await self._arrived(json.loads(await asyncio.to_thread(sys.stdin.readline)))
        for task in (subscriber, everything):
            task.cancel()
        await asyncio.gather(subscriber, everything, return_exceptions=True)

    async def _flowing(self) -> None:
        while min(map(len, self.record.received.values())) < FLOWING:  # noqa: ASYNC110 - three conditions
            await asyncio.sleep(PAUSE_SECONDS)
        print("flowing", flush=True)

    async def _arrived(self, accepted: dict[str, list[int]]) -> None:
        """Some never do: a session that ended has missed something."""
        missing, since = -1, time.monotonic()
        while missing != 0 and time.monotonic() - since < QUIET_SECONDS:
            received = self.record.received
            now = sum(len(set(numbers) - received[stream].keys()) for stream, numbers in accepted.items())
            if now != missing:
                missing, since = now, time.monotonic()
            await asyncio.sleep(PAUSE_SECONDS)

    def _next(self, stream: str) -> int:
        self.record.sent[stream] += 1
        return self.record.sent[stream]

    def _subject(self, stream: str) -> str:
        return f"{SUBJECT}.{self._settings.run}.{stream}"

    async def _fresh(self) -> None:
        one = device(FRESH, self._settings)
        while not self._stopping:
            one.socket.close()
            one.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._send(one, FRESH)
            await asyncio.sleep(PAUSE_SECONDS)
        one.close()

    async def _fixed(self) -> None:
        one = device(FIXED, self._settings)
        while not self._stopping:
            self._send(one, FIXED)
            await asyncio.sleep(PAUSE_SECONDS)
        one.close()

    def _send(self, one: Device, stream: str) -> None:
        """That nobody was there for the last one is told by the next call: a datagram's sender does not mind."""
        packet = one.packet(self._subject(stream), str(self._next(stream)))
        with _unminded():
            one.send(packet)

    async def _tcp(self) -> None:
        open_number: int | None = None
        while not self._stopping or open_number is not None:
            try:
                async with connect("hsp", self._settings.host, self._settings.hsp, connect_seconds=5.0) as client:
                    self.record.sessions += 1
                    for _ in range(A_SESSION):
                        if self._stopping and open_number is None:
                            break
                        open_number = open_number or self._next(TCP)
                        await self._publish(client, open_number)
                        open_number = None
                        await asyncio.sleep(PAUSE_SECONDS)
            except (ClientError, OSError, TimeoutError):
                self.record.refused += 1
                await asyncio.sleep(RETRY_SECONDS)

    async def _publish(self, client: StreamClient, number: int) -> None:
        told = client.post(self._subject(TCP), str(number).encode(), JSON)
        async with asyncio.timeout(CONFIRM_SECONDS):
            if (await told).outcome is not Outcome.CONFIRMED:
                raise TimeoutError
        self.record.acknowledged.append(number)
        self.record.acknowledged_at.append(time.monotonic())

    async def _subscriber(self) -> None:
        while True:
            try:
                async with connect("yamp", self._settings.host, self._settings.yamp, connect_seconds=5.0) as client:
                    await client.subscribe(f"{SUBJECT}.{self._settings.run}.>")
                    self.record.subscriptions += 1
                    self._subscribed.set()
                    async for event in client.events():
                        stream = event.subject.rpartition(".")[2]
                        self.record.received[stream][number(event.body)] += 1
                        self.record.received_at.append(time.monotonic())
            except (ClientError, OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)


def number(body: bytes | str) -> int:
    """Accepts the text as it was sent, or in the form that a protocol has for text."""
    said: Any = json.loads(body)
    while not isinstance(said, int):
        said = json.loads(said) if isinstance(said, str) else said[0]
    return said


@contextmanager
def _unminded() -> Iterator[None]:
    try:
        yield
    except (ConnectionRefusedError, BlockingIOError):
        pass


def longest_silence(times: list[float]) -> float:
    return max((after - before for before, after in pairwise(times)), default=0.0)


def main() -> None:
    load = Load(Settings(**json.loads(Path(sys.argv[1]).read_text())))
    asyncio.run(load.run())
    print(json.dumps(vars(load.record)), flush=True)


if __name__ == "__main__":
    main()

"""The senders and receivers while parts are killed. All of them go on by themselves when their edge is back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable

from gateway.client import Answer, IncomingRequest, StreamClient, connect
from gateway.client.errors import ClientError, EndedError, NoAnswerError
from gateway.core.content import JSON
from gateway.core.event import Kind
from gateway.protocols.actions import Delivered, Outcome
from tests.chaos.record import Message, Received, Requests, Sent
from tests.integration.emm_peer import Device

RETRY_SECONDS = 0.1
ASK_SECONDS = 20.0
TURN_SECONDS, LONGEST_TURN_SECONDS = 0.01, 0.25
REPEATED, LOST, HELD_BACK = 0.1, 0.02, 0.05
"""Shares of a device's packets that come twice, never, or behind the next one."""
SUBJECT, ASKED = "chaos", "chaosask.it"


async def every_turn(rate: float) -> AsyncIterator[int]:
    """Yields every few milliseconds how many messages are due since, for ever. What a slow turn misses is not sent
    later: after a kill that would be a storm.
    """
    turn = max(1 / rate, TURN_SECONDS)
    before, owed = time.monotonic(), 1.0
    while True:
        due = int(owed)
        owed -= due
        yield due
        await asyncio.sleep(turn)
        now = time.monotonic()
        owed += min(now - before, LONGEST_TURN_SECONDS) * rate
        before = now


class Publisher:
    """Over hsp. `port()`: of its edge, where it connects again and again."""

    def __init__(
        self, name: str, port: int, rate: float, sent: Sent, *, unacknowledged: int, padding_bytes: int
    ) -> None:
        self._name = name
        self._port = port
        self._rate = rate
        self._sent = sent
        self._unacknowledged = unacknowledged
        self._padding = b" " * padding_bytes
        self._session = 0
        self._next = 0
        self._open: set[int] = set()
        self._again: list[int] = []
        self._stopping = False

    def stop(self) -> None:
        """When what is open has been acknowledged."""
        self._stopping = True

    @property
    def is_done(self) -> bool:
        return self._stopping and not self._open and not self._again

    async def run(self) -> None:
        while not self.is_done:
            try:
                async with connect("hsp", "127.0.0.1", self._port) as client:
                    await self._publish(client)
            except (ClientError, OSError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _publish(self, client: StreamClient) -> None:
        """One session: first what an earlier one left open, in its order."""
        self._session += 1
        self._again = sorted(self._open | set(self._again))
        self._open.clear()
        over = asyncio.ensure_future(client.wait_ended())
        try:
            async for due in every_turn(self._rate):
                for _ in range(due):
                    if len(self._open) < self._unacknowledged and (self._again or not self._stopping):
                        self._send(client, self._number())
                if self.is_done or over.done():
                    return
        finally:
            over.cancel()
            await asyncio.gather(over, return_exceptions=True)

    def _number(self) -> int:
        if self._again:
            return self._again.pop(0)
        self._next += 1
        return self._next

    def _send(self, client: StreamClient, number: int) -> None:
        message = Message(self._name, self._session, number)
        self._open.add(number)
        try:
            told = client.post(f"{SUBJECT}.{self._name}", message.to_json() + self._padding, JSON)
        except ClientError:
            self._again.insert(0, number)
            self._open.discard(number)
            raise
        self._sent.add(message)
        told.add_done_callback(lambda done: self._told(message, done.result()))

    def _told(self, message: Message, end: Delivered) -> None:
        if end.outcome is Outcome.CONFIRMED:
            self._sent.acknowledged.add(message)
            if message.session == self._session:
                self._open.discard(message.number)


class UdpSender:
    """A device behind a bad network: some packets come twice, some never, some behind the next."""

    def __init__(self, name: str, device: Device, rate: float, sent: Sent, chance: random.Random) -> None:
        self._name = name
        self._device = device
        self._rate = rate
        self._sent = sent
        self._chance = chance
        self._number = 0
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        late: list[bytes] = []
        async for due in every_turn(self._rate):
            for _ in range(due):
                self._send(late)
            if self._stopping:
                return

    def _send(self, late: list[bytes]) -> None:
        self._number += 1
        message = Message(self._name, self._number, self._number)  # a stream of its own: nothing promises its order
        packet = self._device.packet(f"{SUBJECT}.udp.{self._name}", message.to_json().decode())
        self._sent.add(message)
        for one in self._on_the_way(packet, late):
            self._device.send(one)

    def _on_the_way(self, packet: bytes, late: list[bytes]) -> list[bytes]:
        drawn = self._chance.random()
        if drawn < LOST:
            return []
        if drawn < LOST + HELD_BACK and not late:
            late.append(packet)
            return []
        copies = 2 if drawn > 1 - REPEATED else 1
        held, late[:] = late[:], []
        return [packet] * copies + held


class Requester:
    """Over yamp: one request after another, each with a number that is asked once."""

    def __init__(self, name: int, port: int, rate: float, requests: Requests) -> None:
        self._number = name * 1_000_000
        self._port = port
        self._pause = 1 / rate
        self._requests = requests
        self.numbers: list[int] = []
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        while not self._stopping:
            try:
                async with connect("yamp", "127.0.0.1", self._port) as client:
                    await self._ask_on(client)
            except (ClientError, OSError):
                await asyncio.sleep(RETRY_SECONDS)

    async def _ask_on(self, client: StreamClient) -> None:
        while not self._stopping:
            self._number += 1
            self.numbers.append(self._number)
            self._requests.answers[self._number] = await self._ask(client, self._number)
            if self._requests.answers[self._number] == "ended":
                return
            await asyncio.sleep(self._pause)

    async def _ask(self, client: StreamClient, number: int) -> str:
        try:
            answer = await client.request(ASKED, b"%d" % number, JSON, timeout=ASK_SECONDS)
        except NoAnswerError:
            return "timeout"
        except ClientError:
            return "ended"
        if answer.kind is Kind.RESPONSE:
            return "answered" if answer.body == b"%d" % (number + 1) else f"a wrong answer: {answer.body!r}"
        return answer.code


class Receiver:
    """At the edge that is not killed: one session, from before the first kill to after the last."""

    def __init__(self, protocol: str, port: int) -> None:
        self._protocol, self._port = protocol, port
        self.received = Received(protocol)
        self.subscribed = asyncio.Event()

    async def run(self) -> None:
        try:
            async with connect(self._protocol, "127.0.0.1", self._port) as client:
                await client.subscribe(f"{SUBJECT}.>")
                self.subscribed.set()
                async for event in client.events():
                    self.received.add(Message.from_json(event.body))
        except EndedError as ended:
            self.received.ended = str(ended)


async def serve(port: int, requests: Requests, ready: Callable[[], None]) -> None:
    """Answers every number with the next, for ever. Raises EndedError if its session ends."""

    async def answer(asked: IncomingRequest) -> Answer:
        number = int(asked.body)
        requests.asked[number] += 1
        return Answer(Kind.RESPONSE, b"%d" % (number + 1), JSON)

    async with connect("yamp", "127.0.0.1", port) as client:
        await client.serve(ASKED, answer)
        ready()
        await client.wait_ended()

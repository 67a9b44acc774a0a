"""The traffic of the demo: which peers talk to which.

    devices (emm, signed UDP) ── demo.garden.temperature … ─┐
    an hsp PLC ── demo.pump.pressure ───────────────────────┼──► a yamp subscriber of demo.>
    an emp client ── demo.order.created ────────────────────┤
    a wolpertinger client ── demo.shift.report ─────────────┘
    the wolpertinger client asks Demo.Valve ──► the hsp PLC answers

Invariants
1. Nobody sends more than `rate` events a second, and nobody sends after the time is over.
2. A protocol without a listener that a client can reach is left out, and named.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.client import Answer, IncomingRequest, StreamClient, connect, connect_emm
from gateway.config import Config
from gateway.core.content import JSON
from gateway.core.event import Event
from gateway.demo.devices import Device

SUBSCRIBER, PLC, ORDERS, SHIFT = "yamp", "hsp", "emp", "wolpertinger"
DEVICES = "emm"
PATTERN, VALVE = "demo.>", "Demo.Valve"
PLAIN_SCHEMES = frozenset({"tcp", "ws", "udp"})
"""Addresses that a client reaches without certificates."""
LAST_SECONDS = 5.0
"""The last events may take so long to arrive."""
ASK_EVERY = 5
"""One of so many turns of the wolpertinger client is a request."""


Talk = Callable[[int], Awaitable[None]]
"""Does what a peer does in a turn, which is given by its number."""


@dataclass(slots=True)
class DemoCounts:
    """Counts what was sent and received, by protocol of the sender."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    failed: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The plan of a demo. `addresses` say where each protocol's peers connect; a protocol without one is left out."""

    addresses: Mapping[str, str]
    devices: tuple[Device, ...]
    seconds: float
    rate: float


def addresses_of(config: Config) -> dict[str, str]:
    """Returns the first listener of each protocol that a client reaches without certificates and tokens.

    Those on loopback go first: from outside, peers that prove nothing may be kept from everything.
    """
    addresses: dict[str, str] = {}
    for listener in sorted(config.listeners, key=lambda listener_: listener_.is_exposed):
        address = listener.address
        if address.scheme in PLAIN_SCHEMES and address.port and not listener.require_login:
            addresses.setdefault(listener.protocol, str(replace(address, at=address.at.reachable)))
    return addresses


class Demo:
    """Runs the peers of a plan. `tally` says at any time how far they are. Raises ClientError."""

    def __init__(self, plan: DemoPlan) -> None:
        self._plan = plan
        self._until = 0.0
        self.tally = DemoCounts()

    async def run(self) -> None:
        """Connects everybody first, and counts the time from then on."""
        async with AsyncExitStack() as peers:
            talkers = [talker async for talker in _Cast(self._plan, self.tally, peers).talkers()]
            self._until = asyncio.get_running_loop().time() + self._plan.seconds
            async with asyncio.TaskGroup() as tasks:
                for at, talk in enumerate(talkers):
                    tasks.create_task(self._talk(talk, at / max(len(talkers), 1)))
            await self._last_arrive()

    async def _talk(self, talk: Talk, shift: float) -> None:
        """Takes its turns evenly, and not all peers at the same moment."""
        loop, interval = asyncio.get_running_loop(), 1 / self._plan.rate
        first_at = loop.time() + shift * interval
        turn = 0
        while (at := first_at + turn * interval) < self._until:
            await asyncio.sleep(at - loop.time())
            await talk(turn)
            turn += 1

    async def _last_arrive(self) -> None:
        if SUBSCRIBER not in self._plan.addresses:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                while self.tally.received.total() < self.tally.sent.total():
                    self.tally.arrived.clear()
                    await self.tally.arrived.wait()


class _Cast:
    """The peers, each connected as it is made; `peers` ends their sessions."""

    def __init__(self, plan: DemoPlan, tally: DemoCounts, peers: AsyncExitStack) -> None:
        self._plan = plan
        self._tally = tally
        self._peers = peers

    async def talkers(self) -> AsyncIterator[Talk]:
        """Yields what each peer does in a turn. The subscriber and the server come first, so that nothing is missed."""
        if SUBSCRIBER in self._plan.addresses:
            client = await self._peers.enter_async_context(
                connect(SUBSCRIBER, self._plan.addresses[SUBSCRIBER], on_event=self._receive)
            )
            await client.subscribe(PATTERN)
        if PLC in self._plan.addresses:
            yield await self._plc()
        for protocol, subject, body in ((ORDERS, "demo.order.created", _order), (SHIFT, "demo.shift.report", _report)):
            if protocol in self._plan.addresses:
                client = await self._connected(protocol)
                yield self._publisher(client, protocol, subject, body)
                if protocol == SHIFT and PLC in self._plan.addresses:
                    yield self._asker(client)
        if DEVICES in self._plan.addresses:
            for number, device in enumerate(self._plan.devices):
                yield await self._device(device, number)

    async def _connected(self, protocol: str) -> StreamClient:
        return await self._peers.enter_async_context(connect(protocol, self._plan.addresses[protocol]))

    def _receive(self, event: Event) -> None:
        """The subject says who has sent it: nothing else of it is the same in all protocols."""
        self._tally.received[_SENDERS.get(event.subject, DEVICES)] += 1
        self._tally.arrived.set()

    async def _plc(self) -> Talk:
        client = await self._connected(PLC)
        await client.serve(VALVE, _turn_valve)
        return self._publisher(client, PLC, "demo.pump.pressure", lambda turn: {"bar": _wave(3.2, 0.4, turn)})

    def _publisher(
        self, client: StreamClient, protocol: str, subject: str, body: Callable[[int], dict[str, Any]]
    ) -> Talk:
        async def talk(turn: int) -> None:
            await client.publish(subject, _json(body(turn)), JSON)
            self._tally.sent[protocol] += 1

        return talk

    def _asker(self, client: StreamClient) -> Talk:
        async def talk(turn: int) -> None:
            if turn % ASK_EVERY:
                return
            answer = await client.request(VALVE, _json([turn % 100]), JSON)
            self._tally.answered += answer.ok
            self._tally.failed += not answer.ok

        return talk

    async def _device(self, device: Device, number: int) -> Talk:
        """Sends the events of a device. Its lease is answered once the mesh believes its key."""
        client = await self._peers.enter_async_context(connect_emm(self._plan.addresses[DEVICES], key=device.key))
        await client.subscribe(f"demo-command.{device.name.split()[0]}")

        async def talk(turn: int) -> None:
            await client.publish(device.subject, _json({"celsius": _wave(19 + number, 3, turn + 7 * number)}), JSON)
            self._tally.sent[DEVICES] += 1

        return talk


_SENDERS = {"demo.pump.pressure": PLC, "demo.order.created": ORDERS, "demo.shift.report": SHIFT}


async def _turn_valve(request: IncomingRequest) -> Answer:
    """Says that the valve turns, and echoes what it was set to: wolpertinger sends its parameters as a list.

    Progress towards wolpertinger loses its body, so there is a translation loss to be seen.
    """
    request.progress(_json("turning"), JSON)
    return Answer(body=request.body, content_type=request.content_type)


def _order(turn: int) -> dict[str, Any]:
    return {"order": turn + 1, "items": 1 + turn % 4}


def _report(turn: int) -> dict[str, Any]:
    return {"shift": "ABC"[turn // 10 % 3], "pieces": turn % 10}


def _wave(middle: float, swing: float, turn: int) -> float:
    """
    >>> _wave(20, 3, 0), _wave(20, 3, 15)
    (20.0, 22.99)
    """
    return round(middle + swing * math.sin(turn / 10), 2)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

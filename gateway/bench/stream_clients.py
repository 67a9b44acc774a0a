"""Clients of the stream protocols that do no more with a frame than a run needs.

They are the clients of `gateway.client`, session, carrier and all: handshake, acknowledgements and keepalive are the
protocol's own. What is left out is what makes events of frames.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from gateway.bench.arrivals import Arrivals
from gateway.bench.messages import PeerPlace
from gateway.client import Answer, IncomingRequest, StreamClient
from gateway.client.carriers.stream import tls_context
from gateway.client.connecting import begin, client_options, client_settings
from gateway.client.stream import OnEvent
from gateway.core.address import parse_address
from gateway.core.content import JSON
from gateway.protocols import protocols
from gateway.protocols.actions import Action, Delivered, Delivery, FramesReceived

OPENING = 64
"""Sessions that are opened at once: a listener's backlog is not what is measured."""
SELECTED_SOCKETS = 256
"""Up to so many the loop waits with `select`, whose timeout counts in microseconds; that of `epoll` would round each
sleep of the schedule up to the next millisecond."""

ClientT = TypeVar("ClientT", bound="BenchClient")


class BenchClient(StreamClient):
    """A client of the bench. `arrivals` is given what comes by subscription."""

    arrivals: Arrivals | None = None
    takes_frames = False


class StreamPublisher(BenchClient):
    """Publishes deliveries that are made beforehand, and put when they are due."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.outcomes: Counter[str] = Counter()

    def prepared(self, subject: str, body: bytes) -> Delivery:
        return self._translator.event(subject, body, JSON)

    def put(self, delivery: Delivery) -> None:
        """Raises EndedError where there is no session any more."""
        self._check_open()
        self._driver.deliver(delivery)

    async def writable(self) -> None:
        await self._driver.writable()

    def _delivered(self, delivered: Delivered) -> None:
        self.outcomes[str(delivered.outcome)] += 1
        super()._delivered(delivered)


class StreamSubscriber(BenchClient):
    """Subscribes over a session. Once `takes_frames` is set, it searches what comes as it is, and makes no events."""

    def _act(self, action: Action) -> None:
        if self.takes_frames and self.arrivals is not None and isinstance(action, FramesReceived):
            if action.tag is not None:
                self._driver.logged(action.tag)
            self.arrivals.take(action.data)
        else:
            super()._act(action)


async def open_clients(kind: type[ClientT], place: PeerPlace, count: int) -> list[ClientT]:
    """Raises UnreachableError."""
    room = asyncio.Semaphore(OPENING)

    async def open_one() -> ClientT:
        async with room:
            return await open_client(kind, place)

    return await asyncio.gather(*(open_one() for _ in range(count)))


async def open_client(kind: type[ClientT], place: PeerPlace, on_event: OnEvent | None = None) -> ClientT:
    """Raises UnreachableError."""
    spec, address = protocols()[place.protocol], parse_address(place.address)
    client = kind(spec, client_options(spec, {}), client_settings(address), str(address), on_event)
    files = place.tls
    await begin(client, address, tls_context(files.ca, files.cert, files.key) if address.has_tls else None)
    return client


async def open_subscribers(place: PeerPlace, subject: str, arrivals: Sequence[Arrivals]) -> list[StreamSubscriber]:
    """Returns subscribers whose subscriptions the mesh has acknowledged.

    Raises UnreachableError, RefusedError, NoAnswerError.
    """
    room = asyncio.Semaphore(OPENING)
    by_event = protocols()[place.protocol].calls_may_be_events

    async def open_one(noting: Arrivals) -> StreamSubscriber:
        async with room:
            client = await open_client(StreamSubscriber, place, lambda event: noting.take(event.body))
            client.arrivals = noting
            await client.subscribe(subject)
            # A call that may be an event has to be understood, for its session is told that no answer is owed.
            client.takes_frames = not by_event
            return client

    return await asyncio.gather(*(open_one(noting) for noting in arrivals))


async def echo(request: IncomingRequest) -> Answer:
    """The server's side of a measured request."""
    return Answer(body=request.body, content_type=request.content_type)


async def close_all(clients: Sequence[StreamClient]) -> None:
    await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)


def run_loop(talk: Coroutine[Any, Any, None], sockets: int) -> None:
    selector = selectors.SelectSelector() if sockets <= SELECTED_SOCKETS else selectors.DefaultSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(talk)

"""Senders and a subscriber that go on by themselves whatever is done to the mesh, in a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.client import connect
from gateway.client.errors import ClientError
from tests.chaos import verdict
from tests.chaos.load import SUBJECT, Publisher, UdpSender
from tests.chaos.record import Message, Received, Sent
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until

ACKNOWLEDGED, DATAGRAMS = 40.0, 20.0
"""Messages a second."""
FLOWS_SECONDS, FINISH_SECONDS, RETRY_SECONDS = 120.0, 60.0, 0.1


class Load:
    """What was sent and received stays the same record over all that is done. `device` is one that the mesh knows."""

    def __init__(self, mesh: TestMesh, device: Device, chance: random.Random) -> None:
        self._mesh, self._device, self._chance = mesh, device, chance
        self.sent = Sent()
        self.sessions: list[Received] = []
        self.subscribed_at = 0.0
        self._runs = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything flows when this is entered, and again before it is left."""
        self._runs += 1
        port = self._mesh.ports
        publisher = Publisher(
            f"p{self._runs}", port["hsp"], ACKNOWLEDGED, self.sent, unacknowledged=200, padding_bytes=0
        )
        datagrams = UdpSender(f"u{self._runs}", self._device, DATAGRAMS, self.sent, self._chance)
        done = threading.Event()

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                subscriber = group.create_task(self._subscriber())
                senders = [group.create_task(sender.run()) for sender in (publisher, datagrams)]
                await asyncio.to_thread(done.wait)
                for sender in (publisher, datagrams):
                    sender.stop()
                await asyncio.gather(*senders)
                await self._until_nothing_more_comes()
                subscriber.cancel()

        thread = threading.Thread(target=asyncio.run, args=(work(),), daemon=True)
        thread.start()
        try:
            self.wait_flowing()
            yield
            self.wait_flowing()
        finally:
            done.set()
            thread.join(FINISH_SECONDS + FLOWS_SECONDS)
        assert not thread.is_alive(), "not everything is acknowledged"

    def wait_flowing(self) -> float:
        """Waits until what is sent from now on comes. Returns the seconds."""
        at = time.monotonic()
        wait_until(lambda: self._flows_since(at), f"everything flows{self._mesh.logs()}", FLOWS_SECONDS)
        return time.monotonic() - at

    def _flows_since(self, at: float) -> bool:
        names = {f"p{self._runs}", f"u{self._runs}"}
        came = {message.publisher for session in self.sessions[-1:] for message, _ in session.since(at)}
        return names <= came

    async def _until_nothing_more_comes(self) -> None:
        deadline = time.monotonic() + FINISH_SECONDS
        while any(self.missing()) and time.monotonic() < deadline:  # noqa: ASYNC110 - a thread has what it asks
            await asyncio.sleep(RETRY_SECONDS)

    async def _subscriber(self) -> None:
        while True:
            with contextlib.suppress(ClientError, OSError):
                async with connect("yamp", "127.0.0.1", self._mesh.ports["yamp"]) as client:
                    await client.subscribe(f"{SUBJECT}.>")
                    self.subscribed_at = time.monotonic()
                    self.sessions.append(session := Received(f"session {len(self.sessions) + 1}"))
                    async for event in client.events():
                        session.add(Message.from_json(event.body))
            await asyncio.sleep(RETRY_SECONDS)

    # -- what must hold ----------------------------------------------------------------------------------------

    def missing(self) -> Iterator[str]:
        """Of what was acknowledged since the subscriber's last subscription."""
        promised = {one for one in self.sent.acknowledged if self.sent.at[one] > self.subscribed_at}
        if self.sessions:
            yield from verdict.lost(self.sessions[-1], promised)

    def faults(self) -> Iterator[str]:
        yield from self.missing()
        for session in self.sessions:
            yield from verdict.doubled(session)
            yield from verdict.disordered(session)
            yield from verdict.invented(session, self.sent)

    def twice(self) -> int:
        """Messages that came in more than one session of the subscriber."""
        seen = [set(session.counts) for session in self.sessions]
        return sum(map(len, seen)) - len(set().union(*seen))

    def longest_silence(self, since: float) -> float:
        """The longest time without an event since a moment."""
        times = sorted(came for session in self.sessions for _, came in session.messages if came > since)
        return max((after - before for before, after in zip([since, *times], times, strict=False)), default=0.0)

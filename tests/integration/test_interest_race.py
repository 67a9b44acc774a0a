"""What is received after a subscription was acknowledged reaches its subscriber, whatever partition they are in."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from gateway.client import NoAnswerError, StreamClient, open_client
from gateway.core.address import parse_address
from tests.integration.mesh import TestMesh, wait_until

SUBSCRIBERS, PUBLISHERS, ROUNDS = 16, 4, 12


async def _race(mesh: TestMesh) -> list[str]:
    """Each subscriber subscribes to subjects of its own, one after another; as soon as one is acknowledged, somebody
    else publishes to it, once. What did not come is returned."""
    publishers = [await _open(mesh, "hsp") for _ in range(PUBLISHERS)]
    subscribers = [await _open(mesh, "yamp" if number % 2 else "hsp") for number in range(SUBSCRIBERS)]
    try:
        missed = await asyncio.gather(
            *(_run(name, one, publishers[name % PUBLISHERS]) for name, one in enumerate(subscribers))
        )
    finally:
        for client in (*publishers, *subscribers):
            await client.close()
    return [subject for subjects in missed for subject in subjects]


async def _open(mesh: TestMesh, protocol: str) -> StreamClient:
    return await open_client(protocol, parse_address(f"tcp://127.0.0.1:{mesh.ports[protocol]}"))


async def _run(name: int, subscriber: StreamClient, publisher: StreamClient) -> list[str]:
    missed = []
    for turn in range(ROUNDS):
        subject = f"race.{name}.{turn}"
        await _subscribe(subscriber, subject if turn % 3 else f"race.{name}.{turn}.*")
        await publisher.publish(subject if turn % 3 else f"{subject}.x", b"1", "application/json")
        try:
            async with asyncio.timeout(45):
                await anext(subscriber.events())
        except TimeoutError:
            missed.append(subject)
    return missed


async def _subscribe(subscriber: StreamClient, pattern: str) -> None:
    """While the router is away nobody answers: a client asks again."""
    while True:
        with contextlib.suppress(NoAnswerError):
            return await subscriber.subscribe(pattern)


def test_no_event_is_missed_after_the_acknowledgement(mesh: TestMesh) -> None:
    assert asyncio.run(_race(mesh)) == []


def test_nor_when_the_router_is_killed_meanwhile(mesh: TestMesh) -> None:
    async def race_and_kill() -> list[str]:
        racing = asyncio.create_task(_race(mesh))
        await asyncio.sleep(2)
        os.kill(mesh.pid_of("router"), signal.SIGKILL)
        return await racing

    killed = mesh.pid_of("router")
    assert asyncio.run(race_and_kill()) == []
    wait_until(lambda: mesh.pid_of("router") != killed, "the router was started again")

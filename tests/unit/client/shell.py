"""The verbs as a shell runs them, and the other side of what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.cli.bodies import guessed_type
from gateway.client import Answer, connect
from tests.unit.client.loopback import LoopbackMesh
from tests.unit.client.loops import SECONDS


def run(mesh: LoopbackMesh, verb: str, *arguments: str, stdin: bytes = b"") -> Result:
    to = ("--via", mesh.spec.name, "--to", f"127.0.0.1:{mesh.port}")
    return CliRunner().invoke(main, [verb, *to, *arguments], input=stdin)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.002)


def interests(mesh: LoopbackMesh) -> set[tuple[str, str]]:
    return {interest for peer in list(mesh.peers) for interest in peer.interests}


def publish(mesh: LoopbackMesh, subject: str, body: bytes) -> None:
    async def talk() -> None:
        async with connect(mesh.spec.name, "127.0.0.1", mesh.port) as client:
            await client.publish(subject, body, guessed_type(body))

    asyncio.run(talk())


def ask(mesh: LoopbackMesh, subject: str, body: bytes = b"", **settings: Any) -> Answer:
    async def talk() -> Answer:
        async with connect(mesh.spec.name, "127.0.0.1", mesh.port) as client:
            return await client.request(subject, body, guessed_type(body), **settings)

    return asyncio.run(talk())

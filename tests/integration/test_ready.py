"""A router that says that it is ready routes: the first request after that is answered at once."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.error
import urllib.request

from gateway.client import connect
from gateway.core.content import JSON
from tests.integration.mesh import TestMesh, wait_until

START_SECONDS = 120.0
ANSWER_SECONDS = 2.0
"""A frame takes some 50 ms. A router that was ready when its queries ran took 5 s and more for the first."""


def is_ready(mesh: TestMesh) -> bool:
    url = f"http://127.0.0.1:{mesh.ports['router']}/healthz/ready"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_a_router_that_is_ready_answers_at_once(mesh: TestMesh) -> None:
    async def ask() -> bytes:
        async with connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as client:
            return (await client.request("mesh.ping", b'"here"', JSON, timeout=ANSWER_SECONDS)).body

    os.kill(mesh.pid_of("router"), signal.SIGKILL)
    wait_until(lambda: not is_ready(mesh), "the router is gone")
    wait_until(lambda: is_ready(mesh), "the router is ready again", START_SECONDS)
    assert b'"here"' in asyncio.run(ask())

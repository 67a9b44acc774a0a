"""Logins by a token against a real mesh: the session is somebody else, and what it wanted goes with it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from gateway.client import connect
from tests.integration.conftest import TOKEN_SECRET
from tests.integration.mesh import TestMesh, wait_until

STREAMS = ["emp", "hsp", "yamp", "wolpertinger"]


def token(name: str) -> str:
    return jwt.encode({"sub": name, "aud": "test", "exp": int(time.time()) + 300}, TOKEN_SECRET, algorithm="HS256")


def subscribers(mesh: TestMesh, pattern: str) -> list[str]:
    """Nodes that subscribe to the pattern."""
    said = mesh.command("interests", "list", "--output", "json")
    rows: list[dict[str, Any]] = json.loads(said.stdout)
    return [row["node"] for row in rows if row["pattern"] == pattern]


@pytest.mark.parametrize("protocol", STREAMS)
async def test_who_logs_in_takes_along_what_it_has_subscribed_to(mesh: TestMesh, protocol: str, tmp_path: Path) -> None:
    pattern, name = f"logins.{protocol}.>", f"alice-{protocol}"
    file = tmp_path / "token"
    file.write_text(token("bob"))
    async with connect(protocol, "127.0.0.1", mesh.ports[protocol]) as client:
        await client.subscribe(pattern)
        [former] = await asyncio.to_thread(subscribers, mesh, pattern)
        assert former.startswith("anon:")
        await client.log_in(token(name))
        moved = lambda: subscribers(mesh, pattern) == [f"token:{name}"]  # noqa: E731 - waited for in a thread
        await asyncio.to_thread(wait_until, moved, "the subscription is the node's")
        command = ("pub", f"logins.{protocol}.a", "7", "--via", "yamp")
        said = await asyncio.to_thread(mesh.command, *command, "--token-file", str(file))
        assert said.returncode == 0, said.stderr
        async with asyncio.timeout(20):
            event = await anext(client.events())
        assert json.loads(event.body) in (7, [7])

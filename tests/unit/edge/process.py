"""An edge as `meshgate edge` runs it, without the process: its management address answers."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from gateway.config import load
from gateway.edge.server import Edge
from tests.unit.client.loops import SECONDS
from tests.unit.edge.fake_kafka import FakeKafka
from tests.unit.edge.running import Peer, until


class Process:
    """`meshgate edge`, without the process."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.file = folder / "meshgate.yaml"
        self.says(**settings)
        self.kafka = FakeKafka()
        self.edge = Edge(load(self.file), self.kafka)
        self.stop = asyncio.Event()
        self.done: asyncio.Task[None] | None = None
        self.peers: list[Peer] = []

    def says(self, **settings: Any) -> None:
        """What stands in the file, from now on."""
        edge = {"management": "127.0.0.1:0", "graceful_shutdown_limit_seconds": 2}
        edge |= settings.pop("edge", {})
        said = {"mesh": "test", "kafka": {"partitions": 2}, "edge": edge, **settings}
        self.writes(yaml.safe_dump(said))

    def writes(self, text: str) -> None:
        """At once, as a mounted file changes: the edge reads it in a thread, and must not find half of it."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    def port(self, name: str) -> int:
        return self.edge.life.endpoints.port(name)

    async def dial(self, name: str) -> Peer:
        self.peers.append(Peer(*await asyncio.open_connection("127.0.0.1", self.port(name))))
        return self.peers[-1]

    async def asks(
        self, path: str, *, post: bool = False, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[int, Any]:
        """Asks the management address in a thread, as everybody else would."""
        url = f"http://127.0.0.1:{self.edge.management_port}{path}"
        request = urllib.request.Request(url, body, method="POST" if post else "GET", headers=headers or {})

        def fetch() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as refused:
                with refused:
                    return refused.code, json.load(refused)

        return await asyncio.to_thread(fetch)

    async def becomes(self, status: int) -> None:
        while (await self.asks("/healthz/ready"))[0] != status:
            pass


@asynccontextmanager
async def process(folder: Path, *listeners: dict[str, Any], **settings: Any) -> AsyncIterator[Process]:
    running = Process(folder, listeners=list(listeners), **settings)
    running.done = asyncio.create_task(running.edge.run(running.stop))
    await until(lambda: running.edge.life.has_begun or (running.done is not None and running.done.done()))
    try:
        yield running
    finally:
        for peer in running.peers:
            peer.writer.transport.abort()
        running.kafka.producer_.held = False
        running.kafka.producer_.acknowledge()
        running.stop.set()
        await asyncio.wait({running.done})

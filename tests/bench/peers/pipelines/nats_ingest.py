"""UDP into JetStream: verified first, for the server drops repeats by message id before anybody else sees them."""

from __future__ import annotations

import asyncio
import contextlib

import nats  # type: ignore[import-not-found]
from nats.js.api import StorageType, StreamConfig  # type: ignore[import-not-found]

from tests.bench.peers.pipelines.datagrams import drain, listening
from tests.bench.peers.pipelines.packet import Verifier
from tests.bench.peers.pipelines.settings import HOST, read_settings

WAITING = 100_000
"""Packets that the server has not taken; what comes beyond is lost."""


async def main() -> None:
    settings = read_settings()
    server = await nats.connect(f"nats://{HOST}:{settings.server}")
    stream = server.jetstream()
    await stream.add_stream(
        StreamConfig(
            name=settings.topic,
            subjects=[settings.topic],
            storage=StorageType.FILE,
            duplicate_window=settings.window_seconds,
        )
    )
    verifier = Verifier(settings.keys, settings.window_seconds)
    waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(WAITING)

    def take(packet: bytes) -> None:
        identity = verifier.identity(packet)
        if identity is not None:
            with contextlib.suppress(asyncio.QueueFull):
                waiting.put_nowait((identity.hex(), packet))

    sock = listening(settings.listen)
    asyncio.get_running_loop().add_reader(sock.fileno(), drain, sock, take)
    while True:
        identity, packet = await waiting.get()
        await stream.publish_async(settings.topic, packet, headers={"Nats-Msg-Id": identity})


if __name__ == "__main__":
    asyncio.run(main())

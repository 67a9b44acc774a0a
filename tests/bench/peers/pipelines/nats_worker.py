"""From JetStream, by a durable consumer, and out by UDP."""

from __future__ import annotations

import asyncio
from typing import Any

import nats  # type: ignore[import-not-found]
from nats.js.api import AckPolicy, ConsumerConfig  # type: ignore[import-not-found]
from nats.js.errors import NotFoundError  # type: ignore[import-not-found]

from tests.bench.peers.pipelines.datagrams import sender
from tests.bench.peers.pipelines.settings import HOST, read_settings

ACKNOWLEDGED_EACH = 100
UNACKNOWLEDGED = 20_000


async def main() -> None:
    settings = read_settings()
    server = await nats.connect(f"nats://{HOST}:{settings.server}")
    stream = server.jetstream()
    send, count = sender(settings.deliver), 0

    async def take(message: Any) -> None:
        """An acknowledgement is of all before it too."""
        nonlocal count
        send(message.data)
        count += 1
        if count % ACKNOWLEDGED_EACH == 0:
            await message.ack()

    while True:
        try:
            await stream.subscribe(
                settings.topic,
                durable="pipeline",
                cb=take,
                manual_ack=True,
                config=ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=UNACKNOWLEDGED),
                pending_msgs_limit=1_000_000,
                pending_bytes_limit=512 * 1024 * 1024,
            )
            break
        except NotFoundError:  # the other end makes the stream
            await asyncio.sleep(0.1)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

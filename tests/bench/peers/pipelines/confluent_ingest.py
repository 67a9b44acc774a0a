"""UDP into Kafka with librdkafka, which takes a record in a microsecond: for pipelines that bring it along."""

from __future__ import annotations

import asyncio

from confluent_kafka import Producer

from tests.bench.peers.pipelines.datagrams import drain, listening
from tests.bench.peers.pipelines.packet import node_of
from tests.bench.peers.pipelines.settings import HOST, read_settings

POLL_SECONDS = 0.05


async def main() -> None:
    settings = read_settings()
    producer = Producer(
        {
            "bootstrap.servers": f"{HOST}:{settings.server}",
            "enable.idempotence": True,
            "linger.ms": 2,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    topic, produce = settings.topic, producer.produce

    def take(packet: bytes) -> None:
        produce(topic, packet, key=node_of(packet))

    sock = listening(settings.listen)
    asyncio.get_running_loop().add_reader(sock.fileno(), drain, sock, take)
    while True:
        producer.poll(0)
        await asyncio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    asyncio.run(main())

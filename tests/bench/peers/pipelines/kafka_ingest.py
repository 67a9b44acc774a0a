"""UDP into Kafka with asyncio and kafka-python: a record for each datagram, by node, acknowledged by all replicas."""

from __future__ import annotations

import asyncio
from zlib import crc32

from kafka import KafkaProducer

from tests.bench.peers.pipelines.datagrams import drain, listening
from tests.bench.peers.pipelines.packet import node_of
from tests.bench.peers.pipelines.settings import HOST, read_settings


async def main() -> None:
    settings = read_settings()
    producer = KafkaProducer(
        bootstrap_servers=f"{HOST}:{settings.server}",
        acks="all",
        enable_idempotence=True,
        linger_ms=2,
        batch_size=262_144,
    )
    topic, partitions, send = settings.topic, settings.partitions, producer.send

    def take(packet: bytes) -> None:
        send(topic, packet, partition=crc32(node_of(packet)) % partitions)

    sock = listening(settings.listen)
    asyncio.get_running_loop().add_reader(sock.fileno(), drain, sock, take)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

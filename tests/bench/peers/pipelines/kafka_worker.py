"""From Kafka with kafka-python: verify, drop what was seen in the window, and out by UDP."""

from __future__ import annotations

from kafka import KafkaConsumer

from tests.bench.peers.pipelines.datagrams import sender
from tests.bench.peers.pipelines.packet import Seen, Verifier
from tests.bench.peers.pipelines.settings import HOST, read_settings


def main() -> None:
    settings = read_settings()
    consumer = KafkaConsumer(
        settings.topic,
        bootstrap_servers=f"{HOST}:{settings.server}",
        group_id="pipeline",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        fetch_min_bytes=1,
        fetch_max_wait_ms=50,
        max_poll_records=2_000,
    )
    verifier, seen = Verifier(settings.keys, settings.window_seconds), Seen(settings.window_seconds)
    send = sender(settings.deliver)
    while True:
        for records in consumer.poll(timeout_ms=50).values():
            for record in records:
                identity = verifier.identity(record.value)
                if identity is not None and seen.is_first(identity):
                    send(record.value)


if __name__ == "__main__":
    main()

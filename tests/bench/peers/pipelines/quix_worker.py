"""From Kafka with Quix Streams: verify, drop what its state (RocksDB, with a changelog topic) has, and out by UDP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quixstreams import Application  # type: ignore[import-not-found]

from tests.bench.peers.pipelines.datagrams import sender
from tests.bench.peers.pipelines.packet import Verifier
from tests.bench.peers.pipelines.settings import HOST, read_settings


def main() -> None:
    settings = read_settings()
    app = Application(
        f"{HOST}:{settings.server}",
        consumer_group="pipeline",
        auto_offset_reset="earliest",
        state_dir=f"{settings.folder}/state",
        commit_interval=1.0,
        consumer_poll_timeout=0.05,
        consumer_extra_config={"fetch.wait.max.ms": 50, "fetch.min.bytes": 1},
        producer_extra_config={"linger.ms": 2},
        loglevel="WARNING",
    )
    verifier, window = Verifier(settings.keys, settings.window_seconds), timedelta(seconds=settings.window_seconds)
    send = sender(settings.deliver)

    def is_first(packet: bytes, state: Any) -> bool:
        """The state is the record key's, which is the node."""
        message_id = packet[1:5].hex()
        if state.exists(message_id):
            return False
        state.set(message_id, 1, ttl=window)
        return True

    topic = app.topic(settings.topic, key_deserializer="bytes", value_deserializer="bytes")
    packets = app.dataframe(topic)
    packets = packets.filter(lambda packet: verifier.identity(packet) is not None)
    packets = packets.filter(is_first, stateful=True)
    packets.update(send)
    app.run()


if __name__ == "__main__":
    main()

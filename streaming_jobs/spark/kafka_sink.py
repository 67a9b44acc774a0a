"""Sets up the producers of queries in real time, which write what a record gives as soon as it is there."""

from __future__ import annotations

from gateway.config import Config

# A record leaves at once, and what comes while it is under way leaves together after it: nothing waits for company at
# low rates, and at high ones a burst is two requests. With room for 16 KiB, or five under way, it would be five.
SINK = {
    "kafka.linger.ms": "0",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.batch.size": "262144",
    "kafka.enable.metrics.push": "false",
    "kafka.acks": "all",
    "kafka.compression.type": "zstd",
}


def sink_options(config: Config) -> dict[str, str]:
    """Returns the sink's options.

    A producer's own limit is 1 MiB, less than what is made of the largest frame. The workers obey the mesh's limit.
    """
    return {**config.kafka.spark_options(), **SINK, "kafka.max.request.size": str(config.kafka.message_bytes)}

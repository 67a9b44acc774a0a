"""Frames of the mesh itself that go the way of all frames: through the Python pass, the state and the sink."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka import KafkaProducer

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, LatencyProbe
from gateway.records.raw_log.frames import FrameSource
from streaming_jobs.routing.change_records import ROUTER

SEND_SECONDS = 1.0


def new_token() -> str:
    """Returns what tells one probe from all others."""
    return os.urandom(8).hex()


def probe_record(token: str) -> bytes:
    """Returns the raw record of a probe."""
    builder = ContainerBuilder(ROUTER, 0)
    builder.add(FrameSource(MESH, "", ROUTER, 0), now_us(), control_frames.encode(LatencyProbe(token)))
    return builder.build()


@contextmanager
def probe_sender(config: Config) -> Iterator[Callable[[], None]]:
    """Connects to Kafka, and yields what puts a probe into each raw partition. Nobody waits for them to come back."""
    producer = KafkaProducer(**config.kafka.client_settings(), acks="all", metrics_enabled=False)

    def send() -> None:
        for partition in range(config.lanes):
            producer.send(config.topic("raw"), value=probe_record(new_token()), partition=partition)
        producer.flush(SEND_SECONDS)

    try:
        yield send
    finally:
        producer.close(0)

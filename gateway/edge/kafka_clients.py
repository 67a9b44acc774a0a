"""How an edge reaches Kafka. All of it blocks, and is called in threads."""

from __future__ import annotations

from typing import Any, Protocol

from kafka import KafkaProducer

from gateway.config import Config
from gateway.edge.egress_reader import EgressReader, Failed, Handle
from gateway.edge.ledger import Resumption
from gateway.edge.left_open import left_open
from gateway.edge.outcomes import KnownOutcomes, look_back
from gateway.raw_log.frames import ReplyAddress
from gateway.topics import ensure_topics

NEVER_SECONDS = 365 * 86_400
"""The producer gives no record up by itself: Kafka being away is back-pressure, not loss."""


class Producer(Protocol):
    """Of kafka-python's producer, what is used here."""

    def send(self, topic: str, value: bytes, **settings: Any) -> Any: ...
    def flush(self, timeout: float) -> None: ...
    def close(self, timeout: float) -> None: ...


class Reader(Protocol):
    """Of the egress partition; see `EgressReader`."""

    end: int
    resumption: Resumption

    def lag(self, handled_to: int) -> int: ...
    def start(self, handle: Handle, failed: Failed) -> None: ...
    def commit_now(self, resumption: Resumption) -> None: ...
    def commit(self, resumption: Resumption) -> None: ...
    def taken(self) -> None: ...
    def stop(self) -> None: ...


class Clients(Protocol):
    def prepare(self, config: Config) -> None:
        """The topics exist. Raises SetupError."""

    def producer(self, config: Config) -> Producer: ...
    def reader(self, config: Config) -> Reader: ...
    def look_back(self, config: Config, resumption: Resumption) -> KnownOutcomes:
        """What an earlier life has written into `deliveries`."""

    def left_open(self, config: Config, epoch: int) -> list[ReplyAddress]:
        """Who waits for sessions of an earlier life."""


class KafkaClients:
    def prepare(self, config: Config) -> None:
        ensure_topics(config)

    def producer(self, config: Config) -> Producer:
        """Idempotent, acknowledged by all in-sync replicas, and with the topics' partitions known: to ask for them
        later would block the loop."""
        settings = config.kafka.producer
        producer = KafkaProducer(
            **config.kafka.client_settings(),
            acks="all",
            enable_idempotence=True,
            compression_type=None if settings.compression == "none" else settings.compression,
            batch_size=settings.batch_bytes,
            linger_ms=settings.linger_milliseconds,
            max_request_size=config.kafka.message_bytes,
            request_timeout_ms=int(settings.request_timeout_seconds * 1000),
            delivery_timeout_ms=NEVER_SECONDS * 1000,
            metrics_enabled=False,
        )
        for topic in ("raw", "deliveries", "rejected"):
            producer.partitions_for(f"{config.mesh}.{topic}")
        found: Producer = producer
        return found

    def reader(self, config: Config) -> Reader:
        return EgressReader(config)

    def look_back(self, config: Config, resumption: Resumption) -> KnownOutcomes:
        return look_back(config, resumption)

    def left_open(self, config: Config, epoch: int) -> list[ReplyAddress]:
        return left_open(config, epoch)

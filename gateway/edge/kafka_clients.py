"""Makes the Kafka clients of an edge. Every function blocks, and is called in a thread."""

from __future__ import annotations

from typing import Protocol

from gateway.config import Config
from gateway.edge import producer
from gateway.edge.egress.ledger import Resumption
from gateway.edge.egress.left_open import left_open
from gateway.edge.egress.outcomes import KnownOutcomes, look_back
from gateway.edge.egress.reader import EgressReader, Failed, Handle
from gateway.edge.producer import Sends
from gateway.raw_log.frames import ReplyAddress
from gateway.topics.ensure import ensure_topics


class Producer(Sends, Protocol):
    def flush(self, seconds: float) -> None: ...
    def close(self, seconds: float) -> None: ...


class Reader(Protocol):
    """Reads the egress partition. `EgressReader` implements it."""

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
        """Makes sure that the topics exist. Raises SetupError."""

    def producer(self, config: Config) -> Producer: ...
    def reader(self, config: Config) -> Reader: ...
    def look_back(self, config: Config, resumption: Resumption) -> KnownOutcomes:
        """Returns the outcomes that an earlier life has written into `deliveries`."""

    def left_open(self, config: Config, epoch: int) -> list[ReplyAddress]:
        """Returns the requests that were open on sessions of an earlier life."""


class KafkaClients:
    def prepare(self, config: Config) -> None:
        ensure_topics(config)

    def producer(self, config: Config) -> Producer:
        return producer.Producer(config)

    def reader(self, config: Config) -> Reader:
        return EgressReader(config)

    def look_back(self, config: Config, resumption: Resumption) -> KnownOutcomes:
        return look_back(config, resumption)

    def left_open(self, config: Config, epoch: int) -> list[ReplyAddress]:
        return left_open(config, epoch)

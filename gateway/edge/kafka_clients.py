"""Makes the Kafka clients of an edge. Every function blocks, and is called in a thread."""

from __future__ import annotations

from typing import Protocol

from gateway.config import Config
from gateway.edge import producer
from gateway.edge.delivery.offset_tracker import CommittedState
from gateway.edge.delivery.orphaned_requests import orphaned_requests
from gateway.edge.delivery.outcomes import KnownOutcomes, look_back
from gateway.edge.delivery.reader import EgressReader, Failed, Handle
from gateway.edge.producer import Sends
from gateway.kafka.topics import ensure_topics
from gateway.records.raw_log.frames import ReplyAddress


class ProducerClient(Sends, Protocol):
    def flush(self, seconds: float) -> None: ...
    def close(self, seconds: float) -> None: ...


class ReaderClient(Protocol):
    """Reads the egress partition. `EgressReader` implements it."""

    end: int
    resumption: CommittedState

    def lag(self, handled_to: int) -> int: ...
    def start(self, handle: Handle, failed: Failed) -> None: ...
    def commit_now(self, resumption: CommittedState) -> None: ...
    def commit(self, resumption: CommittedState) -> None: ...
    def batch_handled(self) -> None: ...
    def stop(self) -> None: ...


class Clients(Protocol):
    def prepare(self, config: Config) -> None:
        """Makes sure that the topics exist. Raises SetupError."""

    def producer(self, config: Config) -> ProducerClient: ...
    def reader(self, config: Config) -> ReaderClient: ...
    def look_back(self, config: Config, resumption: CommittedState) -> KnownOutcomes:
        """Returns the outcomes that an earlier life has written into `deliveries`."""

    def orphaned_requests(self, config: Config, epoch: int) -> list[ReplyAddress]:
        """Returns the requests that were open on sessions of an earlier life."""


class KafkaClients:
    def prepare(self, config: Config) -> None:
        ensure_topics(config)

    def producer(self, config: Config) -> ProducerClient:
        return producer.Producer(config)

    def reader(self, config: Config) -> ReaderClient:
        return EgressReader(config)

    def look_back(self, config: Config, resumption: CommittedState) -> KnownOutcomes:
        return look_back(config, resumption)

    def orphaned_requests(self, config: Config, epoch: int) -> list[ReplyAddress]:
        return orphaned_requests(config, epoch)

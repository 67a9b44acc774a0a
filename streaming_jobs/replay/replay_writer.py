"""Puts frames into the raw log again: as they were received, beside what is known of their first time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from types import TracebackType
from typing import Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.ids import event_ids
from gateway.inspect.history.logged_frame import LoggedFrame
from gateway.kafka.client_logs import not_answering
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import Replayed

FRAMES_PER_RECORD = 200
CONNECT_SECONDS = 5
WRITE_SECONDS = 30

FrameAgain = tuple[LoggedFrame, Replayed]


class ReplayWriter:
    """Writes a frame again into the partition where it stood first, to keep its order among its node's frames."""

    def __init__(self, config: Config) -> None:
        self._topic = config.topic("raw")
        self._bytes = config.edge.record.bytes
        try:
            self._producer = KafkaProducer(
                **config.kafka.client_settings(),
                acks="all",
                compression_type="zstd",
                enable_idempotence=True,
                max_request_size=config.kafka.message_bytes,
                bootstrap_timeout_ms=CONNECT_SECONDS * 1000,
                metrics_enabled=False,
            )
        except (KafkaError, OSError, ValueError) as error:
            raise not_answering(config.kafka.bootstrap_servers, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close()

    def put(self, frames: Iterable[FrameAgain]) -> list[str]:
        """Writes the frames, and returns the ids of their new positions, in order.

        They are on all in-sync replicas when it returns.
        """
        places: list[str] = []
        for partition, record, count in records(frames, self._bytes):
            try:
                sent = self._producer.send(self._topic, value=record, partition=partition).get(WRITE_SECONDS)
            except KafkaError as error:
                raise SetupError(f"{self._topic}: {type(error).__name__} after {len(places)} frames") from None
            places += event_ids(partition, sent.offset, range(count))
        return places


def records(frames: Iterable[FrameAgain], most_bytes: int) -> Iterator[tuple[int, bytes, int]]:
    """Yields the partition, the record, and how many frames are in it. A record has one edge and epoch."""
    for (partition, edge, epoch), together in groupby(frames, key=_home):
        builder = ContainerBuilder(edge, epoch)
        for logged, again in together:
            builder.add_again(logged.raw, again)
            if len(builder) >= FRAMES_PER_RECORD or builder.size >= most_bytes:
                count = len(builder)
                yield partition, builder.build(), count
        if count := len(builder):
            yield partition, builder.build(), count


def _home(entry: FrameAgain) -> tuple[int, str, int]:
    logged, _ = entry
    return logged.position.partition, logged.raw.source.edge, logged.raw.source.epoch

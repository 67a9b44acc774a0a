"""Asks the broker at an edge's start where a partition stands and what it has held since some time.

A broker that has just started refuses for a while, each request for a reason of its own, so the requests are repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from gateway.config import Config
from gateway.core.errors import SetupError

library = logging.getLogger("kafka.consumer")

ANSWER_SECONDS = 30.0
"""Kafka must answer within this; else the edge ends, and is started again."""
ASK_SECONDS, AGAIN_SECONDS = 5.0, 0.1
POLL_SECONDS = 0.5

Answer = TypeVar("Answer")


def consumer(config: Config, **settings: object) -> Consumer:
    """Returns a consumer of this edge's group, which has no members: it keeps what is committed and assigns nothing."""
    return Consumer(
        {
            **config.kafka.native_settings(),
            "group.id": f"{config.mesh}.edge.{config.edge.id}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",  # out of range: what is left is judged by its position
            "check.crcs": True,
            "error_cb": _complain,
            **settings,
        },
        logger=library,
    )


def insist(ask: Callable[[], Answer]) -> Answer:
    """Raises SetupError."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise SetupError(f"Kafka does not answer about this edge's partitions: {error}") from None
        time.sleep(AGAIN_SECONDS)


def end_of(asking: Consumer, place: TopicPartition) -> int:
    _, end = insist(lambda: asking.get_watermark_offsets(place, timeout=ASK_SECONDS))
    return end


def records_since(config: Config, topic: str, partition: int, since_ms: int, seconds: float) -> Iterator[Message]:
    """Yields the records up to the present end. Blocks.

    Raises SetupError, and TimeoutError if nothing comes for so many seconds.
    """
    with closing(consumer(config, **{"enable.partition.eof": True})) as reading:
        end = end_of(reading, TopicPartition(topic, partition))
        since = TopicPartition(topic, partition, max(since_ms, 0))
        [first] = insist(lambda: reading.offsets_for_times([since], timeout=ASK_SECONDS))
        if first.offset == OFFSET_END or first.offset >= end:
            return
        reading.assign([first])
        last_at = time.monotonic()
        while True:
            record = reading.poll(POLL_SECONDS)
            error = record.error() if record is not None else None
            if record is not None and error is None:
                yield record
                last_at = time.monotonic()
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                return
            elif time.monotonic() - last_at > seconds:
                raise TimeoutError(f"of {topic} nothing could be read for {seconds:.0f} s")
            if record is not None and (record.offset() or 0) >= end - 1:
                return


def _complain(error: KafkaError) -> None:
    """Logs an error of a connection, which goes on by itself."""
    library.info("%s", error.str())

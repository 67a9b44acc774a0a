"""Records into Kafka, by librdkafka: what it does for a record it does outside the interpreter, whose time is what an
edge has least of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Native

from gateway.config import Config

log = logging.getLogger("kafka.producer")

POLL_SECONDS = 0.5
UNBOUNDED = 2**31 - 1
"""The bound of librdkafka's own queue: the publisher bounds it, and stops listeners long before."""
TOPICS_UNKNOWN_SECONDS = 300
"""A broker that comes back may not know its topics yet: that long it is not believed."""

OF_ONE_RECORD = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)


class NotTaken(Exception):
    """Raised if Kafka does not have a record, and never will.

    `only_this` means that it is about this record, and the next may be taken.
    """

    def __init__(self, why: str, *, only_this: bool) -> None:
        super().__init__(why)
        self.only_this = only_this


OnSent = Callable[[NotTaken | None, int, float], None]
"""Hears once what became of a record: why it was not taken, its offset if it has one, and the seconds that it took.

It is called in the caller's thread if the record cannot even be sent, else in the producer's own or in that of
`collect`.
"""
NOWHERE = -1


class Sends(Protocol):
    """The part of a producer that code uses which only writes records."""

    def send(
        self,
        topic: str,
        value: bytes,
        on_sent: OnSent,
        *,
        partition: int = -1,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        is_awaited: bool = True,
    ) -> None: ...

    def collect(self) -> None:
        """Reports the results that are there."""


class Producer:
    """Produces idempotently, acknowledged by all in-sync replicas.

    It gives up no record by itself: Kafka being away is back-pressure, not loss.

    A thread reports results as they come for as long as somebody waits for one. It sleeps otherwise, because to wake it
    for each record costs more than the record; `collect` then reports them. Only one of both reports at a time, so that
    results of one partition are reported in their order.
    """

    def __init__(self, config: Config) -> None:
        settings = config.kafka.producer
        self._kafka = Native(
            {
                **config.kafka.native_settings(),
                "acks": "all",
                "enable.idempotence": True,
                "compression.codec": settings.compression,
                "batch.size": settings.batch_bytes,
                "linger.ms": settings.linger_milliseconds,
                "message.max.bytes": config.kafka.message_bytes,
                "request.timeout.ms": int(settings.request_timeout_seconds * 1000),
                "message.timeout.ms": 0,
                "topic.metadata.propagation.max.ms": TOPICS_UNKNOWN_SECONDS * 1000,
                "queue.buffering.max.messages": 0,
                "queue.buffering.max.kbytes": UNBOUNDED,
                "error_cb": _complain,
            },
            logger=log,
        )
        self._awaited = 0
        self._awaited_changes = threading.Lock()
        self._is_awaited = threading.Event()
        self._reporting = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="produced", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes,
        on_sent: OnSent,
        *,
        partition: int = -1,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        is_awaited: bool = True,
    ) -> None:
        """Sends a record.

        Args:
            is_awaited: somebody waits for the result. Without it the result may wait for the next `collect`.
        """

        def ended(error: KafkaError | None, record: Message) -> None:
            if is_awaited:
                self._count_awaited(-1)
            offset = record.offset()
            seconds = record.latency() or 0.0
            on_sent(None if error is None else _not_taken(error), NOWHERE if offset is None else offset, seconds)

        if is_awaited:
            self._count_awaited(1)
        try:
            self._kafka.produce(topic, value, key, partition, on_delivery=ended, headers=list(headers))
        except (KafkaException, BufferError) as error:
            if is_awaited:
                self._count_awaited(-1)
            cause = error.args[0]
            refused = _not_taken(cause) if isinstance(cause, KafkaError) else NotTaken(str(error), only_this=False)
            on_sent(refused, NOWHERE, 0.0)

    def collect(self) -> None:
        """Reports the results that are there, if the thread is not doing so."""
        if self._reporting.acquire(blocking=False):
            try:
                self._kafka.poll(0)
            finally:
                self._reporting.release()

    def _count_awaited(self, change: int) -> None:
        with self._awaited_changes:
            self._awaited += change
            if not self._awaited:
                self._is_awaited.clear()
            elif not self._is_awaited.is_set():
                self._is_awaited.set()

    def flush(self, seconds: float) -> None:
        """Blocks until every result has been reported, or the time is up."""
        with self._reporting:
            self._kafka.flush(seconds)

    def close(self, seconds: float) -> None:
        """Closes the producer after at most so many seconds. What is not acknowledged by then was never promised."""
        self.flush(seconds)
        self._closing.set()
        self._thread.join(2 * POLL_SECONDS)

    def _listen(self) -> None:
        while not self._closing.is_set():
            is_awaited = self._is_awaited.wait(POLL_SECONDS)
            with self._reporting:
                self._kafka.poll(POLL_SECONDS if is_awaited else 0)


def _not_taken(error: KafkaError) -> NotTaken:
    return NotTaken(f"{error.name()}: {error.str()}", only_this=error.code() in OF_ONE_RECORD)


def _complain(error: Any) -> None:
    """Logs an error of the connection, not of a record. The connection goes on by itself."""
    log.info("%s", error.str())

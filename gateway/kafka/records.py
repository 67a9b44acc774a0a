"""Records of the mesh's topics, and how one comes to read them without being noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.config import Config
from gateway.kafka.client_logs import not_answering, quiet_clients
from gateway.kafka.topics import connect_admin

if TYPE_CHECKING:
    from kafka import KafkaConsumer


class TopicRecord(NamedTuple):
    """A record of a topic. `logged_at`: microseconds, by the clock of who wrote it."""

    partition: int
    offset: int
    logged_at: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    def header(self, name: str) -> str:
        """Returns the value of a header; empty if there is none."""
        return next((value.decode(errors="replace") for key, value in self.headers if key == name), "")


def record_of(polled: Any) -> TopicRecord:
    """Returns the record that a consumer gave."""
    logged_at = polled.timestamp * 1000
    return TopicRecord(polled.partition, polled.offset, logged_at, polled.key, polled.value, tuple(polled.headers))


def open_consumer(config: Config, **settings: Any) -> KafkaConsumer:
    """Returns a consumer in no group, so nothing is moved. Raises SetupError if Kafka does not answer."""
    # Here, because it takes half as long as an edge's start, and most edges are never looked at.
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError

    connect_admin(config)
    try:
        with quiet_clients():
            return KafkaConsumer(
                **config.kafka.client_settings(),
                group_id=None,
                enable_auto_commit=False,
                metrics_enabled=False,
                **settings,
            )
    except (KafkaError, OSError, ValueError) as error:
        raise not_answering(config.kafka.bootstrap_servers, error) from None

"""Kafka as the mesh uses it: where it is, how clients prove themselves, and what each topic keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.section import Bytes, Count, Milliseconds, RelativePath, Seconds
from gateway.config.topics import TOPICS, TopicName
from gateway.core.address import HostPort, KnownHostPortField, parse_host_port
from gateway.core.section import Section

EMBEDDED = "embedded"
COMPACTED_PARTITIONS = 1
"""Not `kafka.partitions`: in a topic that grows, a key moves to another partition, and what it was last said to be
stays behind for ever. So a compacted topic keeps the number it was made with."""
COMPACTION: dict[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "3600000",
}
"""Kafka never compacts the open segment, and waits by default for a gigabyte or a week, and until half of the log is
old. A worker that starts reads all of it. An end is kept for an hour: by then every reader has seen it."""
COMPACTED_SEGMENT_BYTES = 16 * 2**20
SEGMENTS = 8
"""The least segments of a partition whose size is bounded: only whole segments are deleted, and the open one never."""
SEGMENT_BYTES = range(2**20, 64 * 2**20)
"""Not smaller than Kafka allows; not larger than the embedded broker's own. A segment holds the largest record all the
same, because Kafka refuses what is larger than a segment."""

RECORD_OVERHEAD_BYTES = 65_536
"""The most that stands beside a frame in a record: its source, its replies, the container's own head."""
RECONNECT_MILLISECONDS = 1_000
"""A broker that is back is found at most so much later. kafka-python's own limit is 30 s, librdkafka's 10: a short
absence would last as long again. A try costs a connection that is refused."""

# With three copies one broker may be away without stopping the mesh: the least that `acks=all` makes durable.
CLUSTER_REPLICATION, CLUSTER_MIN_INSYNC = 3, 2


def _bootstrap(text: str) -> str:
    if text != EMBEDDED:
        for part in text.split(","):
            parse_host_port(part.strip())
    return text


class KafkaSecurity(Section):
    """Sets how clients reach a Kafka that authenticates them. Files are PEM."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Clients speak to the brokers with or without TLS (`SSL`), and with or without a login (`SASL`)."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """This is how clients log in, where `protocol` asks for it. SCRAM never sends the password itself."""
    username: str | None = None
    """This is the name that clients log in under; it is needed with SASL."""
    password: SecretStr | None = None
    """Clients log in with this password; write it as `${file:PATH}` or `${NAME}`."""
    ca: RelativePath | None = None
    """The brokers' certificates must be signed by one in this PEM file. Without it, by whom the system trusts."""
    cert: RelativePath | None = None
    """Clients show this certificate (PEM) to brokers that ask for one."""
    key: RelativePath | None = None
    """This is the private key (PEM) of `cert`."""
    key_password: SecretStr | None = None
    """This opens `key`, where it is encrypted."""
    check_hostname: bool = True
    """A broker's certificate must name the host that was dialled. Turn it off only where brokers have other names."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.uses_sasl and (self.username is None or self.password is None):
            raise PydanticCustomError("sasl", "{protocol} needs username and password", {"protocol": self.protocol})
        if (self.cert is None) != (self.key is None):
            raise PydanticCustomError("tls", "cert and key belong together")
        return self

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def client_settings(self) -> dict[str, Any]:
        """Returns the keyword arguments of kafka-python's clients."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.uses_sasl:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": _reveal(self.password),
            }
        if self.uses_tls:
            settings |= {
                "ssl_check_hostname": self.check_hostname,
                "ssl_cafile": _text(self.ca),
                "ssl_certfile": _text(self.cert),
                "ssl_keyfile": _text(self.key),
                "ssl_password": _reveal(self.key_password),
            }
        return {name: value for name, value in settings.items() if value is not None}

    def native_settings(self) -> dict[str, Any]:
        """Returns the settings of librdkafka's clients."""
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.uses_sasl:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": _reveal(self.password),
            }
        if self.uses_tls:
            settings |= {
                "ssl.endpoint.identification.algorithm": "https" if self.check_hostname else "none",
                "ssl.ca.location": _text(self.ca),
                "ssl.certificate.location": _text(self.cert),
                "ssl.key.location": _text(self.key),
                "ssl.key.password": _reveal(self.key_password),
            }
        return {name: value for name, value in settings.items() if value is not None}

    def spark_options(self) -> dict[str, str]:
        """Returns the options of Spark's Kafka source and sink, with the text of PEM files, as Java takes them."""
        options: dict[str, str] = {"kafka.security.protocol": self.protocol}
        if self.uses_sasl:
            options |= {"kafka.sasl.mechanism": self.mechanism, "kafka.sasl.jaas.config": self._jaas()}
        if self.uses_tls:
            options |= self._java_tls()
        return options

    def _jaas(self) -> str:
        scram = self.mechanism.startswith("SCRAM")
        package = "org.apache.kafka.common.security"
        module = f"{package}.scram.ScramLoginModule" if scram else f"{package}.plain.PlainLoginModule"
        user, password = _quoted(self.username or ""), _quoted(_reveal(self.password) or "")
        return f"{module} required username={user} password={password};"

    def _java_tls(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if not self.check_hostname:
            options["kafka.ssl.endpoint.identification.algorithm"] = ""
        if self.ca is not None:
            options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": self.ca.read_text()}
        if self.cert is not None and self.key is not None:
            options |= {
                "kafka.ssl.keystore.type": "PEM",
                "kafka.ssl.keystore.certificate.chain": self.cert.read_text(),
                "kafka.ssl.keystore.key": self.key.read_text(),
            }
            if self.key_password is not None:
                options["kafka.ssl.key.password"] = self.key_password.get_secret_value()
        return options


def _reveal(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _text(path: object) -> str | None:
    return None if path is None else str(path)


def _quoted(text: str) -> str:
    """Returns a JAAS string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class ProducerSettings(Section):
    """The edges' producers. It is idempotent and waits for all in-sync replicas always: that is no setting."""

    compression: Literal["zstd", "lz4", "gzip", "none"] = "zstd"
    """Records are compressed in this way. zstd halves the raw log for 0.5 µs a frame."""
    batch_bytes: Bytes = 524_288
    """The producer sends at most so many bytes of one partition at once. Throughput is at most partitions × batch /
    round trip; 256 KiB to 1 MiB measured best."""
    linger_milliseconds: Milliseconds = 0
    """The producer waits so long for more records. They are packed before they reach it, so waiting again would only
    add latency."""
    request_timeout_seconds: Seconds = 30
    """A request that no broker answers within this time is sent again."""


class TopicSettings(Section):
    """Overrides the defaults for one topic. Sizes are per partition, as Kafka counts them."""

    partitions: Count | None = None
    """This topic has so many partitions instead of `kafka.partitions`. The number can only grow."""
    retention_hours: Annotated[float, Field(gt=0)] | None = None
    """Records of this topic are kept so long. Without it: `raw`, `events` and `deliveries` a week, `rejected` 30 days,
    `egress` one day."""
    retention_bytes: Bytes | None = None
    """Each partition of this topic keeps at most so many bytes, the oldest go first. Without it the topic has its share
    of `kafka.embedded_bytes` or `kafka.cluster_bytes`."""
    segment_bytes: Bytes | None = None
    """A partition is kept in files of this size; only whole ones are deleted. Without it, the broker's default
    holds."""
    replication: Count | None = None
    """There are so many copies of this topic instead of `kafka.replication`."""
    min_insync_replicas: Count | None = None
    """So many copies must have a record of this topic before it is acknowledged, instead of
    `kafka.min_insync_replicas`."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic as it is to be created. `settings` are Kafka's own topic settings."""

    partitions: int
    replication: int
    settings: dict[str, str]


class KafkaSettings(Section):
    bootstrap: Annotated[str, AfterValidator(_bootstrap)] = EMBEDDED
    """Clients begin at these brokers, host:port,host:port; `embedded` is a broker of our own, for one machine."""
    listen: KnownHostPortField = HostPort("127.0.0.1", 9092)
    """The embedded broker listens at this address."""
    partitions: Count = 4
    """The raw topic has so many partitions: they are the unit of scaling. The number can only grow, and nodes move to
    other partitions when it does."""
    replication: Count | None = None
    """There are so many copies of each topic. Without it there are 3, or as many as there are brokers."""
    min_insync_replicas: Count | None = None
    """So many copies must have a frame before it is acknowledged. Without it 2, or as many as there are brokers, so
    that one broker of three may be away."""
    message_bytes: Bytes = 4_194_304
    """No record is larger than this. It must hold the largest frame with what stands beside it, 64 KiB."""
    security: KafkaSecurity = KafkaSecurity()
    """This section says how clients prove themselves to Kafka, and how they know it."""
    embedded_bytes: Bytes | None = 8 * 2**30
    """The topics of the embedded broker take at most so much disk together; the oldest goes first, however young. Null
    is no bound."""
    cluster_bytes: Bytes | None = 80 * 2**30
    """The topics of a cluster take at most so much disk together, one copy counted; the oldest goes first, however
    young. Null is no bound: then whoever may send can fill the brokers' disks, and a full Kafka stops everybody.
    `retention_bytes` of a topic wins over its share."""
    producer: ProducerSettings = ProducerSettings()
    """This section tunes the edges' producers. They are always idempotent and wait for all in-sync copies; that is no
    setting."""
    topics: dict[TopicName, TopicSettings] = Field(default_factory=dict)
    """This says what differs from the defaults for single topics, by their short names such as `raw`."""

    @property
    def largest_frame(self) -> int:
        """The largest frame that a record can hold."""
        return self.message_bytes - RECORD_OVERHEAD_BYTES

    @property
    def is_embedded(self) -> bool:
        return self.bootstrap == EMBEDDED

    @property
    def bootstrap_servers(self) -> str:
        """The servers where clients begin: host:port,host:port."""
        return str(self.listen.reachable) if self.is_embedded else self.bootstrap

    def client_settings(self) -> dict[str, Any]:
        """Returns the keyword arguments that every kafka-python client takes."""
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "reconnect_backoff_max_ms": RECONNECT_MILLISECONDS,
            **self.security.client_settings(),
        }

    def native_settings(self) -> dict[str, Any]:
        """Returns the settings that every librdkafka client takes."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.max.ms": RECONNECT_MILLISECONDS,
            "log.connection.close": False,
            **self.security.native_settings(),
        }

    def spark_options(self) -> dict[str, str]:
        """Returns the options that Spark's Kafka source and sink both take."""
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **self.security.spark_options()}

    def topic(self, name: TopicName, brokers: int | None = None) -> TopicPlan:
        """Returns the plan of a topic. `brokers` is the cluster's count, if they have been counted.

        Nobody has to say that one broker keeps one copy.
        """
        cluster = CLUSTER_REPLICATION if brokers is None else min(brokers, CLUSTER_REPLICATION)
        own = self.topics.get(name, TopicSettings())
        replication = own.replication or self.replication or (1 if self.is_embedded else cluster)
        least = own.min_insync_replicas or self.min_insync_replicas or (1 if self.is_embedded else CLUSTER_MIN_INSYNC)
        settings = {"min.insync.replicas": str(min(least, replication)), "max.message.bytes": str(self.message_bytes)}
        partitions = COMPACTED_PARTITIONS if TOPICS[name].is_compacted else self.partitions
        count = own.partitions or partitions
        return TopicPlan(count, replication, settings | self._retention(name, own, self._bound(name, own, count)))

    def _bound(self, name: TopicName, own: TopicSettings, partitions: int) -> int | None:
        """Returns how large one partition may get."""
        together = self.embedded_bytes if self.is_embedded else self.cluster_bytes
        if own.retention_bytes is not None or together is None:
            return own.retention_bytes
        return together * TOPICS[name].share_percent // 100 // partitions or None

    def _retention(self, name: TopicName, own: TopicSettings, bound: int | None) -> dict[str, str]:
        default_hours = TOPICS[name].retention_hours
        if default_hours is None:
            compacted = own.segment_bytes or max(COMPACTED_SEGMENT_BYTES, self.message_bytes)
            return COMPACTION | {"segment.bytes": str(compacted)}
        hours = own.retention_hours if own.retention_hours is not None else default_hours
        topic_settings = {"cleanup.policy": "delete", "retention.ms": str(round(hours * 3_600_000))}
        segment = own.segment_bytes
        if bound is not None:
            topic_settings["retention.bytes"] = str(bound)
            least = max(SEGMENT_BYTES.start, self.message_bytes)
            segment = segment or max(min(bound // SEGMENTS, SEGMENT_BYTES.stop), least)
        if segment is not None:
            topic_settings["segment.bytes"] = str(segment)
        return topic_settings

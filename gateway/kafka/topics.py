"""Creates the mesh's topics, and refuses to go on with ones that do not fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    TopicMetadata,
)

from gateway.config import Config
from gateway.config.topics import TOPICS, TopicName
from gateway.core.address import parse_host_port
from gateway.core.errors import SetupError
from gateway.core.quantity import quantity
from gateway.kafka.client_logs import in_words, quiet_clients
from gateway.kafka.ports import accepts_connections

log = logging.getLogger(__name__)
library = logging.getLogger("kafka.admin")
ANSWER_SECONDS, TRY_SECONDS, LEAST_TRY_SECONDS = 30.0, 2.0, 0.5
PORT_SECONDS = 0.05
START_SECONDS = 30.0
"""The time for Kafka to answer a part that is being started, perhaps together with it."""
LOOK_SECONDS = 4.0
"""The time for Kafka to answer a part that only looks: nothing is being started that would have to wait for it."""
SETTLE_SECONDS = 30.0
"""The time for all brokers to hear of a topic that was made or grown."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is, beside what the configuration wants. No partitions: there is no such topic."""

    topic: str
    partitions: int
    wanted: int
    replication: int

    @property
    def fits(self) -> bool:
        """True if the topic has enough partitions, and for the raw topic exactly as many as wanted.

        More harm nobody except in the raw topic: its nodes would move to other partitions.
        """
        return self.partitions == self.wanted if self.topic.endswith(".raw") else self.partitions >= self.wanted


def ensure_topics(config: Config, *, seconds: float = START_SECONDS) -> None:
    """Makes sure that all topics exist. Raises SetupError if Kafka is away or a topic has too few partitions."""
    admin = connect_admin(config, seconds)
    _create_missing(admin, config)
    # The brokers that are asked may hear of a topic a moment after the one that made it.
    states = _wait_until(admin, config, lambda state: state.partitions > 0)
    _check_partitions(states, config)
    if config.kafka.is_embedded:
        _align_settings(admin, config)


def topic_states(config: Config, *, seconds: float | None = None) -> list[TopicState]:
    """Returns the state of every topic of the mesh. Raises SetupError if Kafka cannot be reached."""
    return _states(connect_admin(config, seconds), config)


def grow_topics(config: Config, *, seconds: float | None = None) -> list[TopicState]:
    """Creates what is missing, gives topics the partitions they lack, and waits until the brokers know of them.

    Returns those that were grown, as they were. Raises SetupError for what would have to shrink: partitions never do.
    """
    admin = connect_admin(config, seconds)
    before = _create_missing(admin, config)
    if large := next((state for state in before if not state.fits and state.partitions > state.wanted), None):
        raise SetupError(
            f"{large.topic} has {large.partitions} partitions and can only grow: set kafka.partitions to that"
        )
    grown = [state for state in before if not state.fits]
    if grown:
        for created in admin.create_partitions([NewPartitions(state.topic, state.wanted) for state in grown]).values():
            _answer(created)
        _wait_until(admin, config, lambda state: state.fits)
    return grown


def _create_missing(admin: AdminClient, config: Config) -> list[TopicState]:
    """Creates what is missing, and returns the topics that were there already."""
    states = _states(admin, config)
    missing = [name for name, state in zip(TOPICS, states, strict=True) if not state.partitions]
    if missing:
        _create(admin, config, missing, len(_metadata(admin).brokers))
    return [state for state in states if state.partitions]


def _states(admin: AdminClient, config: Config) -> list[TopicState]:
    topics = _metadata(admin).topics
    return [_state(config, name, topics.get(config.topic(name))) for name in TOPICS]


def _metadata(admin: AdminClient) -> ClusterMetadata:
    """Raises SetupError."""
    try:
        return admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise SetupError(f"Kafka does not answer about its topics: {error.args[0].str()}") from None


def _state(config: Config, name: TopicName, metadata: TopicMetadata | None) -> TopicState:
    """A compacted topic that is there is wanted as it is: it must not grow."""
    partitions = metadata.partitions.values() if metadata else ()
    replication = min((len(partition.replicas) for partition in partitions), default=0)
    partitions_due = (len(partitions) if TOPICS[name].is_compacted else 0) or config.kafka.topic(name).partitions
    return TopicState(config.topic(name), len(partitions), partitions_due, replication)


def _wait_until(admin: AdminClient, config: Config, is_settled: Callable[[TopicState], bool]) -> list[TopicState]:
    """Waits until the brokers say so of every topic."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        states = _states(admin, config)
        unsettled = [state.topic for state in states if not is_settled(state)]
        if not unsettled:
            return states
        if time.monotonic() > deadline:
            names = ", ".join(unsettled)
            raise SetupError(f"the brokers do not know all partitions of {names} after {SETTLE_SECONDS:.0f} s")
        time.sleep(0.2)


def connect_admin(config: Config, seconds: float | None = None) -> AdminClient:
    """Tries until Kafka answers or the time is up, `LOOK_SECONDS` by default.

    The reason is said then, once, and not by the library at each try.

    Callers that go on with another client call this first too: each such client would try for another while, and none
    says why in vain.
    """
    deadline = time.monotonic() + (LOOK_SECONDS if seconds is None else seconds)
    _wait_for_port(config.kafka.bootstrap_servers, deadline)
    complaints: list[str] = []  # why not, by what is known of the connection; a request only knows that none came

    def complain(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # it follows a cause, and says less  # noqa: SLF001
            complaints.append(error.str())

    settings = {**config.kafka.native_settings(), "error_cb": complain}
    admin = AdminClient(settings, logger=library)
    with quiet_clients():
        while True:
            try:
                # A broker that has just started may not know who leads the cluster; who asks then waits for a minute.
                seconds_left = max(deadline - time.monotonic(), LEAST_TRY_SECONDS)
                if admin.list_topics(timeout=min(TRY_SECONDS, seconds_left)).controller_id >= 0:
                    return admin
                why = "the brokers have no controller"
            except KafkaException as error:
                admin.poll(0)
                why = complaints[-1] if complaints else error.args[0].str()
            if time.monotonic() >= deadline:
                running = "the mesh running? (meshgate up)" if config.kafka.is_embedded else "Kafka running?"
                silent = f"kafka.bootstrap {config.kafka.bootstrap_servers} does not answer ({in_words(why)})"
                raise SetupError(f"{silent}: is {running}")
            time.sleep(0.2)


def _wait_for_port(servers: str, deadline: float) -> None:
    """Waits until one of the brokers, which may start together with its clients, listens.

    librdkafka would log each try as an error, and leave up to a second between them.
    """
    addresses = [parse_host_port(server.strip()) for server in servers.split(",")]
    while (seconds_left := deadline - time.monotonic()) > 0 and not any(map(accepts_connections, addresses)):
        time.sleep(min(PORT_SECONDS, seconds_left))


def _create(admin: AdminClient, config: Config, names: Sequence[TopicName], brokers: int) -> None:
    """Creates the topics by one request."""
    plans = {config.topic(name): config.kafka.topic(name, brokers) for name in names}
    new = [NewTopic(topic, plan.partitions, plan.replication, config=plan.settings) for topic, plan in plans.items()]
    for topic, created in admin.create_topics(new).items():
        plan = plans[topic]
        try:
            created.result()
            partitions = quantity(plan.partitions, "partition")
            log.info("created topic %s: %s, replication %d", topic, partitions, plan.replication)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.INVALID_REPLICATION_FACTOR:
                few = f"{plan.replication} copies of {topic} need as many brokers, and there are {brokers}"
                raise SetupError(f"kafka.replication: {few}") from None
            if code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise SetupError(f"{topic} cannot be created: {error.args[0].str()}") from None
            log.debug("topic %s was created meanwhile", topic)


def _align_settings(admin: AdminClient, config: Config) -> None:
    """Limits that the configuration has changed since the topics were made. Only on our own broker: in a cluster they
    are for whoever runs it, and an operator would turn them back."""
    resources = []
    for topic, new in differing_settings(admin, config).items():
        entries = [ConfigEntry(name, new[name], incremental_operation=AlterConfigOpType.SET) for name in new]
        resources.append(ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries))
    if resources:
        for created in admin.incremental_alter_configs(resources).values():
            _answer(created)
        log.info("limits of %s are set anew", ", ".join(resource.name for resource in resources))


def differing_settings(admin: AdminClient, config: Config, brokers: int | None = None) -> dict[str, dict[str, str]]:
    """Returns the settings that the configuration wants otherwise than Kafka has them, by topic.

    Args:
        brokers: how many the cluster has, where they have been counted.
    """
    wanted_settings = {config.topic(name): config.kafka.topic(name, brokers).settings for name in TOPICS}
    described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in wanted_settings])
    differing = {}
    for resource, answer in described.items():
        has = _answer(answer)
        new = {name: value for name, value in wanted_settings[resource.name].items() if has[name].value != value}
        if new:
            differing[resource.name] = new
    return differing


def _answer(future: Future[Answer]) -> Answer:
    """Raises SetupError."""
    try:
        return future.result()
    except KafkaException as error:
        raise SetupError(f"Kafka refuses what the topics need: {error.args[0].str()}") from None


def _check_partitions(states: list[TopicState], config: Config) -> None:
    """An edge needs its egress partition, and lanes the raw partitions they were told of."""
    by_name = dict(zip(TOPICS, states, strict=True))
    raw, egress = by_name["raw"], by_name["egress"]
    if not raw.fits:
        raise SetupError(
            f"kafka.partitions is {raw.wanted}, but {raw.topic} has {raw.partitions}: set it to {raw.partitions},"
            " or grow the topic (partitions can only grow)"
        )
    if egress.partitions <= config.edge_ordinal:
        raise SetupError(
            f"edge.id {config.edge.id} needs partition {config.edge_ordinal} of {egress.topic},"
            f" which has {egress.partitions}: grow it before adding edges"
        )

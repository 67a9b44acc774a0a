"""Creates the mesh's topics, and refuses to go on with ones that do not fit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from gateway.config import Config
from gateway.config.kafka import COMPACTED, TopicName
from gateway.errors import SetupError
from gateway.quiet_kafka import quiet_clients

log = logging.getLogger(__name__)
TOPICS: tuple[TopicName, ...] = get_args(TopicName)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is, beside what the configuration wants. No partitions: there is no such topic."""

    topic: str
    partitions: int
    wanted: int
    replication: int

    @property
    def fits(self) -> bool:
        """More partitions than wanted harm nobody, except in the raw topic: its nodes would be in other places."""
        return self.partitions == self.wanted if self.topic.endswith(".raw") else self.partitions >= self.wanted


def ensure_topics(config: Config, *, seconds: float = 30.0) -> None:
    """All topics exist. Raises SetupError where Kafka cannot be reached or a topic has too few partitions."""
    admin = connect_admin(config, seconds)
    try:
        _create_missing(admin, config)
        # The brokers that are asked may hear of a topic a moment after the one that made it.
        states = _wait_until(admin, config, lambda state: state.partitions > 0, seconds)
        _check_partitions(states, config)
        if config.kafka.is_embedded:
            _align_settings(admin, config)
    finally:
        admin.close()


def topic_states(config: Config, *, seconds: float = 30.0) -> list[TopicState]:
    """Every topic of the mesh. Raises SetupError where Kafka cannot be reached."""
    admin = connect_admin(config, seconds)
    try:
        return _states(admin, config)
    finally:
        admin.close()


def grow_topics(config: Config, *, seconds: float = 30.0) -> list[TopicState]:
    """Creates what is missing, gives topics the partitions they lack, and waits until the brokers know of them.

    Returns those that were grown, as they were. Raises SetupError for what would have to shrink: partitions never do.
    """
    admin = connect_admin(config, seconds)
    try:
        before = _create_missing(admin, config)
        if large := next((state for state in before if not state.fits and state.partitions > state.wanted), None):
            raise SetupError(
                f"{large.topic} has {large.partitions} partitions and can only grow: set kafka.partitions to that"
            )
        grown = [state for state in before if not state.fits]
        if grown:
            admin.create_partitions({state.topic: state.wanted for state in grown})
            _wait_until(admin, config, lambda state: state.fits, seconds)
        return grown
    finally:
        admin.close()


def _create_missing(admin: KafkaAdminClient, config: Config) -> list[TopicState]:
    """The topics that were there already."""
    states = _states(admin, config)
    for name, state in zip(TOPICS, states, strict=True):
        if not state.partitions:
            _create(admin, config, name)
    return [state for state in states if state.partitions]


def _states(admin: KafkaAdminClient, config: Config) -> list[TopicState]:
    existing = set(admin.list_topics())
    described = admin.describe_topics([topic for name in TOPICS if (topic := config.topic(name)) in existing])
    found = {topic["name"]: topic["partitions"] for topic in described}
    return [_state(config, name, found.get(config.topic(name), [])) for name in TOPICS]


def _state(config: Config, name: TopicName, partitions: list[dict[str, Any]]) -> TopicState:
    """A compacted topic that is there is wanted as it is: it must not grow."""
    replication = min((len(partition["replica_nodes"]) for partition in partitions), default=0)
    wanted = (len(partitions) if name in COMPACTED else 0) or config.kafka.topic(name).partitions
    return TopicState(config.topic(name), len(partitions), wanted, replication)


def _wait_until(
    admin: KafkaAdminClient, config: Config, is_settled: Callable[[TopicState], bool], seconds: float
) -> list[TopicState]:
    """Until the brokers tell so of every topic."""
    deadline = time.monotonic() + seconds
    while True:
        states = _states(admin, config)
        unsettled = [state.topic for state in states if not is_settled(state)]
        if not unsettled:
            return states
        if time.monotonic() > deadline:
            raise SetupError(f"the brokers do not know all partitions of {', '.join(unsettled)} after {seconds:.0f} s")
        time.sleep(0.2)


def connect_admin(config: Config, seconds: float) -> KafkaAdminClient:
    """Tries until Kafka answers or the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with quiet_clients():
                return KafkaAdminClient(**config.kafka.client_settings(), bootstrap_timeout_ms=2000)
        except (KafkaError, OSError, ValueError) as error:
            if time.monotonic() > deadline:
                servers = config.kafka.bootstrap_servers
                raise SetupError(f"kafka.bootstrap {servers} does not answer: {type(error).__name__}") from error
            time.sleep(0.2)


def _create(admin: KafkaAdminClient, config: Config, name: TopicName) -> None:
    plan = config.kafka.topic(name)
    topic = NewTopic(config.topic(name), plan.partitions, plan.replication, topic_configs=plan.settings)
    try:
        admin.create_topics([topic])
        log.info("created topic %s with %d partitions", topic.name, plan.partitions)
    except TopicAlreadyExistsError:
        log.debug("topic %s was created meanwhile", topic.name)


def _align_settings(admin: KafkaAdminClient, config: Config) -> None:
    """Limits that the configuration has changed since the topics were made. Only on our own broker: in a cluster they
    are for whoever runs it, and an operator would turn them back."""
    wanted = {config.topic(name): config.kafka.topic(name).settings for name in TOPICS}
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in wanted]
    found = admin.describe_configs(asked, config_filter="all")["topic"]
    changed = {topic: _differing(settings, found[topic]) for topic, settings in wanted.items()}
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic, new) for topic, new in changed.items() if new]
    if resources:
        admin.alter_configs(resources)
        log.info("limits of %s are set anew", ", ".join(topic for topic, new in changed.items() if new))


def _differing(wanted: dict[str, str], found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if found[name]["value"] != value}


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

"""Kafka: whether it answers, has the topics as configured, keeps its copies, and has the time we have."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka.admin import AdminClient, ClusterMetadata
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from gateway.checkup.findings import Finding, Level
from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.quantity import quantity
from gateway.kafka.client_logs import quiet_clients
from gateway.kafka.topics import ANSWER_SECONDS, TopicState, connect_admin, differing_settings, topic_states

CLOCK_WARN_SECONDS, CLOCK_FAIL_SECONDS = 1.0, 60.0
"""Retention counts in the broker's time, freshness in the edge's; a minute apart, neither means what it says."""


def check_kafka(config: Config) -> Iterator[Finding]:
    try:
        admin = connect_admin(config)
        metadata = admin.list_topics(timeout=ANSWER_SECONDS)
        states = topic_states(config)
        yield Finding(
            "kafka brokers",
            Level.OK,
            f"{len(metadata.brokers)} at {config.kafka.bootstrap_servers}",
            value=len(metadata.brokers),
        )
        yield judge_topics(states)
        if all(state.partitions for state in states):
            yield _copies(metadata, states)
            yield _settings(admin, config, len(metadata.brokers))
        yield _clock(config)
    except SetupError as away:
        remedy = "meshgate up" if config.kafka.is_embedded else "look at kafka.bootstrap and kafka.security"
        yield Finding("kafka brokers", Level.FAIL, str(away), remedy)


def judge_topics(states: list[TopicState]) -> Finding:
    unfit = [
        f"{state.topic} has {quantity(state.partitions, 'partition')} of {state.wanted}"
        if state.partitions
        else f"there is no {state.topic}"
        for state in states
        if not state.fits
    ]
    if unfit:
        too_many = [state.partitions for state in states if not state.fits and state.partitions > state.wanted]
        remedy = f"set kafka.partitions to {too_many[0]}: they never shrink" if too_many else "meshgate topics grow"
        return Finding("kafka topics", Level.FAIL, "; ".join(unfit), remedy)
    return Finding("kafka topics", Level.OK, f"{len(states)} topics have the partitions that are configured")


def _copies(metadata: ClusterMetadata, states: list[TopicState]) -> Finding:
    """A partition without a leader stops its nodes; one that lacks copies is a broker away from that."""
    headless, behind = 0, 0
    for state in states:
        for partition in metadata.topics[state.topic].partitions.values():
            headless += partition.leader < 0
            behind += len(partition.isrs) < len(partition.replicas)
    if headless:
        text = f"without a leader: {quantity(headless, 'partition')}"
        return Finding("kafka copies", Level.FAIL, text, "look at the brokers")
    if behind:
        text = f"without all copies in sync: {quantity(behind, 'partition')}"
        return Finding("kafka copies", Level.WARN, text, "look at the brokers")
    return Finding("kafka copies", Level.OK, "every partition has all its copies in sync")


def _settings(admin: AdminClient, config: Config, brokers: int) -> Finding:
    differing = differing_settings(admin, config, None if config.kafka.is_embedded else brokers)
    if not differing:
        return Finding("kafka settings", Level.OK, "topics keep what is configured")
    advice = (f"{topic}: {name} should be {value}" for topic, new in differing.items() for name, value in new.items())
    remedy = "restart the mesh" if config.kafka.is_embedded else "kafka-configs.sh --alter, or kafka.topics as they are"
    return Finding("kafka settings", Level.WARN, "; ".join(advice), remedy)


def _clock(config: Config) -> Finding:
    try:
        ahead = clock_difference(config)
    except (KafkaError, KeyError, IndexError) as failed:
        text = f"Kafka does not tell its time ({type(failed).__name__})"
        return Finding("kafka clock", Level.WARN, text, "compare its machines' clocks by hand")
    return judge_clock(ahead)


def judge_clock(ahead: float) -> Finding:
    """Judges how many seconds Kafka's clock is ahead of ours."""
    off = abs(ahead)
    level = Level.FAIL if off > CLOCK_FAIL_SECONDS else Level.WARN if off > CLOCK_WARN_SECONDS else Level.OK
    remedy = "synchronise the clocks (NTP) of this machine and of Kafka's" if level else ""
    text = f"Kafka's clock is {off:.2f} s {'ahead of' if ahead >= 0 else 'behind'} ours"
    return Finding("kafka clock", level, text, remedy, round(ahead, 3), "seconds")


def clock_difference(config: Config) -> float:
    """Returns how many seconds the clock of Kafka's controller is ahead of ours, less what the way there may explain.

    The leader of the metadata quorum says when it last caught up with itself: the time of its answer.
    """
    with quiet_clients(), closing(KafkaAdminClient(**config.kafka.client_settings())) as admin:
        admin.describe_metadata_quorum()  # the second answer finds the connection open
        asked_at = time.time()
        quorum = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
        answered = time.time()
    leader = next(voter for voter in quorum["current_voters"] if voter["replica_id"] == quorum["leader_id"])
    leader_seconds = leader["last_caught_up_timestamp"] / 1000
    return 0.0 if asked_at - 0.001 <= leader_seconds <= answered else float(leader_seconds - (asked_at + answered) / 2)

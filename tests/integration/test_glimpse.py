"""A light tap on a real broker: however much passes, a look takes the latest few and counts the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from gateway.config import Config, load
from gateway.inspect.live.topic_sampler import RECORDS_BEFORE, RECORDS_PER_LOOK, Seen, TopicSampler, consumer_of
from gateway.kafka.topics import ensure_topics
from tests.integration.mesh import TestMesh, wait_until

EVENTS = frozenset({"events"})


@pytest.fixture(scope="module")
def config(mesh: TestMesh) -> Config:
    """Topics of their own, where nobody else writes."""
    own = load(mesh.config_file).model_copy(update={"mesh": "glimpsed"})
    ensure_topics(own)
    return own


@pytest.fixture
def glimpse(config: Config) -> Iterator[TopicSampler]:
    with consumer_of(config) as consumer:
        one = TopicSampler(config, consumer)
        one.watch(frozenset({"events"}))
        one.look()
        yield one


def write(config: Config, count: int, name: str = "events") -> None:
    producer = KafkaProducer(**config.kafka.client_settings())
    for number in range(count):
        producer.send(f"{config.mesh}.{name}", value=str(number).encode(), partition=0)
    producer.flush()
    producer.close()


def values(seen: Seen) -> list[bytes | None]:
    return [record.value for record in seen.records["events"]]


def test_what_passes_is_seen_once(config: Config, glimpse: TopicSampler) -> None:
    write(config, 3)
    assert values(glimpse.look()) == [b"0", b"1", b"2"]
    assert values(glimpse.look()) == []


def test_of_much_the_latest_are_seen_and_the_rest_is_counted(config: Config, glimpse: TopicSampler) -> None:
    share = RECORDS_PER_LOOK // config.kafka.topic("events").partitions
    write(config, share + 500)
    seen = glimpse.look()
    assert values(seen)[-1] == str(share + 499).encode()
    assert (len(values(seen)), seen.skipped) == (share, {"events": 500})


def test_the_first_look_brings_a_few_of_before(config: Config) -> None:
    write(config, RECORDS_BEFORE + 10)
    with consumer_of(config) as consumer:
        fresh = TopicSampler(config, consumer)
        fresh.watch(frozenset({"events"}))
        assert values(fresh.look())[-RECORDS_BEFORE:] == [
            str(number).encode() for number in range(10, RECORDS_BEFORE + 10)
        ]


def test_a_topic_that_is_watched_later_does_not_move_the_others(config: Config, glimpse: TopicSampler) -> None:
    write(config, 2)
    glimpse.watch(frozenset({"events", "rejected"}))
    assert values(glimpse.look()) == [b"0", b"1"]
    glimpse.watch(frozenset())
    assert glimpse.look() == Seen()


def test_topics_that_nobody_has_made_are_empty(mesh: TestMesh) -> None:
    nowhere = load(mesh.config_file).model_copy(update={"mesh": "nowhere"})
    with consumer_of(nowhere) as consumer:
        one = TopicSampler(nowhere, consumer)
        one.watch(frozenset({"events"}))
        wait_until(lambda: one.look() == Seen(), "nothing is seen and nothing breaks")

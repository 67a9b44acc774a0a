"""The one reader of `interests`: how far it reads, what it keeps, and when it gives up."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config import Config, parse
from gateway.core.errors import SetupError
from gateway.core.ids import FramePosition
from gateway.interests import Interest, InterestTable, Verb
from gateway.kafka.interest_reader import PROGRESS_SECONDS, InterestReader
from tests.unit.kafka.interests_topic import InterestsTopic

ONE = Interest(
    subscriber="edge-0.1.7", verb=Verb.SUBSCRIBE, pattern="a", edge="edge-0", epoch=1, session=7, protocol="hsp",
    listener="hsp", position=FramePosition(0, 0, 0),
)  # fmt: skip
TWO = replace(ONE, pattern="b")


def configured() -> Config:
    return parse("mesh: t", Path("meshgate.yaml"), os.environ)


def reader_of(topic: InterestsTopic) -> InterestReader:
    return InterestReader(configured(), topic.connect, topic.monotonic)


def put(topic: InterestsTopic, interest: Interest, at_ms: int = 0) -> None:
    topic.log(interest.key.to_bytes(), interest.to_json(), at_ms)


def end(topic: InterestsTopic, interest: Interest, at_ms: int = 0) -> None:
    topic.log(interest.key.to_bytes(), None, at_ms)


def patterns(table: InterestTable) -> set[str]:
    return {interest.pattern for interest in table}


class TestDeadline:
    def test_a_topic_that_takes_longer_than_the_deadline_is_read_as_long_as_something_comes(self) -> None:
        topic = InterestsTopic(per_poll=1, poll_seconds=PROGRESS_SECONDS - 1)
        for number in range(10):
            put(topic, replace(ONE, pattern=f"p{number}"))
        table = InterestTable()
        reader_of(topic).catch_up(table)
        assert topic.now > 5 * PROGRESS_SECONDS
        assert len(table) == 10

    def test_a_broker_that_gives_nothing_of_what_it_has_ends_the_wait(self) -> None:
        topic = InterestsTopic(silent_from=1)
        put(topic, ONE)
        put(topic, TWO)
        with pytest.raises(SetupError, match=r"sent nothing of t\.interests in 30 s"):
            reader_of(topic).catch_up(InterestTable())
        assert PROGRESS_SECONDS < topic.now < PROGRESS_SECONDS + 2

    def test_after_a_failure_the_reader_goes_on_with_what_it_had_not_read(self) -> None:
        topic, table = InterestsTopic(per_poll=1, silent_from=1), InterestTable()
        put(topic, ONE)
        put(topic, TWO)
        reader = reader_of(topic)
        with pytest.raises(SetupError):
            reader.catch_up(table)
        topic.silent_from = None
        reader.catch_up(table)
        assert patterns(table) == {"a", "b"}

    def test_a_topic_that_is_not_there_is_no_empty_mesh(self) -> None:
        topic = InterestsTopic(exists=False)
        reader = reader_of(topic)
        with pytest.raises(SetupError, match=r"no topic t\.interests"):
            reader.catch_up(InterestTable())
        assert topic.closed == 1
        topic.exists = True
        put(topic, ONE)
        table = InterestTable()
        reader.catch_up(table)
        assert patterns(table) == {"a"}


class TestToTheEnd:
    def test_each_call_reads_what_has_come_since(self) -> None:
        topic, table = InterestsTopic(), InterestTable()
        reader = reader_of(topic)
        put(topic, ONE)
        reader.catch_up(table)
        put(topic, TWO)
        end(topic, ONE)
        reader.catch_up(table)
        assert patterns(table) == {"b"}

    def test_only_the_last_value_of_a_key_is_given(self) -> None:
        topic = InterestsTopic()
        for _ in range(9):
            put(topic, ONE)
        put(topic, replace(ONE, epoch=9))
        assert reader_of(topic).read_to_end() == {ONE.key.to_bytes(): replace(ONE, epoch=9).to_json()}

    def test_what_came_with_the_end_is_not_lost(self) -> None:
        topic, table = InterestsTopic(per_poll=10), InterestTable()
        put(topic, ONE)
        comes_meanwhile = iter([TWO])

        def put_next() -> None:
            for interest in comes_meanwhile:
                put(topic, interest)

        topic.on_poll = put_next
        reader = reader_of(topic)
        reader.catch_up(table)
        reader.catch_up(table)
        assert patterns(table) == {"a", "b"}

    def test_it_follows_by_polls(self) -> None:
        topic = InterestsTopic(per_poll=1)
        reader = reader_of(topic)
        put(topic, ONE)
        put(topic, TWO)
        assert [key for key, _ in reader.poll(0)] == [ONE.key.to_bytes()]
        assert not reader.is_at_end
        assert [key for key, _ in reader.poll(0)] == [TWO.key.to_bytes()]
        assert reader.is_at_end
        assert list(reader.poll(0)) == []

    def test_who_closes_before_it_has_connected_closes_nothing(self) -> None:
        topic = InterestsTopic()
        reader_of(topic).close()
        assert topic.closed == 0


class TestUntilATime:
    def test_what_came_later_is_left_out(self) -> None:
        topic = InterestsTopic(per_poll=10)
        put(topic, ONE, at_ms=1_000)
        end(topic, ONE, at_ms=2_000)
        put(topic, TWO, at_ms=2_001)
        reader = reader_of(topic)
        assert reader.read_until(2_000_000) == {ONE.key.to_bytes(): ONE.to_json()}

    def test_a_time_after_everything_leaves_nothing_out(self) -> None:
        topic = InterestsTopic(per_poll=10)
        put(topic, ONE, at_ms=1_000)
        assert len(reader_of(topic).read_until(9_000_000)) == 1

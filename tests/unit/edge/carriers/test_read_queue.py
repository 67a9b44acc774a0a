"""Tests how streams that have more to be read share the edge's thread. Time moves only when a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from gateway.edge.carriers.read_queue import (
    FULL_LOG_SECONDS,
    LEAST_TURN_SECONDS,
    MOST_PAUSE_SECONDS,
    QUEUE_SHARE,
    TURN_SECONDS,
    ReadQueue,
)


class Loop:
    """A loop by hand: `turn` runs what is due."""

    def __init__(self) -> None:
        self.now = 100.0
        self._due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, call: Callable[[], None]) -> None:
        self._due.append((self.now, call))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self._due.append((self.now + seconds, call))

    @property
    def waits_seconds(self) -> float:
        return min(at for at, _ in self._due) - self.now

    def turn(self, seconds: float = 0.0) -> None:
        self.now += seconds
        due = [call for at, call in self._due if at <= self.now + 1e-9]
        self._due = [(at, call) for at, call in self._due if at > self.now + 1e-9]
        for call in due:
            call()


@dataclass
class Mesh:
    loop: Loop = field(default_factory=Loop)
    has_room: bool = True
    served: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue = ReadQueue(cast(asyncio.AbstractEventLoop, self.loop), lambda: self.has_room)


@dataclass
class Stream:
    """It costs what it usually does, and has more each time until `rounds` are over."""

    mesh: Mesh
    name: str
    usual_seconds: float
    rounds: int = 1

    def take_turn(self, expected_seconds: float) -> None:
        self.mesh.served.append(self.name)
        self.mesh.queue.charge(max(self.usual_seconds, LEAST_TURN_SECONDS), expected_seconds)
        self.rounds -= 1
        if self.rounds:
            self.mesh.queue.wait(self, again=True)


def waiting(mesh: Mesh, *names: str, again: bool = False, **stream: Any) -> None:
    for name in names:
        mesh.queue.wait(Stream(mesh, name, **stream), again=again)


def test_streams_have_their_turn_in_the_order_they_came_and_again_after_all_others() -> None:
    mesh = Mesh()
    waiting(mesh, "a", "b", "c", again=True, usual_seconds=TURN_SECONDS / 2, rounds=2)
    while len(mesh.queue):
        mesh.loop.turn(0.001)
    assert mesh.served == ["a", "b", "c", "a", "b", "c"]


def test_a_newcomer_waits_for_one_other_stream_and_not_for_all_that_have_no_end() -> None:
    mesh = Mesh()
    waiting(mesh, *"abcd", usual_seconds=TURN_SECONDS, rounds=9)
    while len(mesh.served) < 6:
        mesh.loop.turn(TURN_SECONDS / QUEUE_SHARE)
    waiting(mesh, "new", usual_seconds=TURN_SECONDS)
    mesh.loop.turn(TURN_SECONDS / QUEUE_SHARE)
    mesh.loop.turn(TURN_SECONDS / QUEUE_SHARE)
    assert "new" in mesh.served[6:8]


def test_however_many_newcomers_there_are_every_second_turn_is_the_others() -> None:
    mesh = Mesh()
    waiting(mesh, "old", usual_seconds=TURN_SECONDS, rounds=9)
    mesh.loop.turn(TURN_SECONDS / QUEUE_SHARE)
    waiting(mesh, *"abcdef", usual_seconds=TURN_SECONDS)
    while len(mesh.served) < 7:
        mesh.loop.turn(TURN_SECONDS / QUEUE_SHARE)
    assert mesh.served.count("old") == 4


def test_one_turn_of_the_loop_serves_as_many_as_its_time_is_for_and_one_more_waits() -> None:
    mesh = Mesh()
    waiting(mesh, *"abcde", usual_seconds=TURN_SECONDS / 4)
    mesh.loop.turn()
    assert mesh.served == ["a", "b", "c", "d"]
    assert len(mesh.queue) == 1
    assert mesh.loop.waits_seconds == pytest.approx(0.0)
    mesh.loop.turn()
    assert mesh.served == ["a", "b", "c", "d"]  # no time has passed, so there is nothing to give
    mesh.loop.turn(0.001)
    assert mesh.served == ["a", "b", "c", "d", "e"]


def test_the_loops_own_work_counts_however_little_a_stream_costs() -> None:
    mesh = Mesh()
    most = round(TURN_SECONDS / LEAST_TURN_SECONDS)
    waiting(mesh, *map(str, range(most + 10)), usual_seconds=0.0)
    mesh.loop.turn()
    assert most <= len(mesh.served) <= most + 1


def test_a_turn_that_took_longer_is_paid_for_at_the_queues_share() -> None:
    mesh = Mesh()
    waiting(mesh, "long", usual_seconds=TURN_SECONDS + 0.007)
    waiting(mesh, "next", usual_seconds=0.001)
    mesh.loop.turn()
    mesh.loop.turn()
    assert mesh.served == ["long"]
    assert mesh.loop.waits_seconds == pytest.approx(0.007 / QUEUE_SHARE)


def test_what_other_streams_cost_comes_off_the_queue_and_never_stops_it_for_long() -> None:
    mesh = Mesh()
    mesh.queue.charge(TURN_SECONDS)
    waiting(mesh, "a", usual_seconds=0.001)
    mesh.loop.turn()
    assert mesh.served == []
    mesh.queue.charge(1_000.0)
    mesh.loop.turn(1e-6)
    assert mesh.served == []
    assert 0 < mesh.loop.waits_seconds <= MOST_PAUSE_SECONDS
    mesh.loop.turn(MOST_PAUSE_SECONDS + 1e-6)
    assert mesh.served == ["a"]


def test_nobody_who_waits_is_read_while_kafka_has_too_much_to_take() -> None:
    mesh = Mesh(has_room=False)
    waiting(mesh, "a", usual_seconds=0.001)
    for _ in range(3):
        assert mesh.loop.waits_seconds == pytest.approx(FULL_LOG_SECONDS)
        mesh.loop.turn(FULL_LOG_SECONDS)
    assert mesh.served == []
    mesh.has_room = True
    mesh.loop.turn(FULL_LOG_SECONDS)
    assert mesh.served == ["a"]


def test_a_turn_of_the_loop_is_crowded_once_its_reads_have_taken_its_time_and_the_next_begins_anew() -> None:
    mesh = Mesh()
    mesh.queue.charge(TURN_SECONDS)
    assert not mesh.queue.is_crowded
    mesh.queue.charge(1e-6)
    assert mesh.queue.is_crowded
    assert mesh.queue.is_contended
    mesh.loop.turn()
    assert not mesh.queue.is_crowded
    assert not mesh.queue.is_contended


def test_a_stream_with_more_to_be_read_waits_behind_those_that_wait_already_and_for_kafka() -> None:
    mesh = Mesh()
    assert not mesh.queue.is_contended
    mesh.has_room = False
    assert mesh.queue.is_contended
    mesh.has_room = True
    waiting(mesh, "a", usual_seconds=0.001)
    assert mesh.queue.is_contended

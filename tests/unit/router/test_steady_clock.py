"""The clock that the dedup counts by, while the machine's is set back and forth."""

from __future__ import annotations

import pickle
import time

import pytest

from streaming_jobs.router import steady_clock
from streaming_jobs.router.steady_clock import SteadyClock

WALL, MONOTONIC = 10_000_000, 500


class Machine:
    """`boot`: which one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall, self.monotonic, self.boot = WALL, MONOTONIC, "a"
        patch.setattr(time, "time", lambda: float(self.wall))
        patch.setattr(time, "monotonic", lambda: float(self.monotonic))
        patch.setattr(steady_clock, "boot_id", lambda: self.boot)

    def pass_seconds(self, seconds: int) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("jump", [3_600, -3_600])
def test_a_jump_of_the_wall_clock_is_not_seen_while_a_query_runs(machine: Machine, jump: int) -> None:
    clock = SteadyClock.begin(0)
    machine.pass_seconds(10)
    machine.wall += jump
    assert clock.now() == WALL + 10


def test_a_query_that_begins_when_the_clock_was_put_back_begins_at_the_floor(machine: Machine) -> None:
    machine.wall -= 3_600
    clock = SteadyClock.begin(WALL)
    machine.pass_seconds(10)
    assert clock.now() == WALL + 10


def test_a_worker_that_begins_after_a_jump_counts_as_those_before_it(machine: Machine) -> None:
    clock = SteadyClock.begin(0)
    machine.wall += 3_600
    sent_to_it = pickle.dumps(clock)
    assert pickle.loads(sent_to_it).now() == clock.now() == WALL  # noqa: S301 - our own


def test_another_machine_goes_on_from_its_own_wall_clock_and_not_below_the_floor(machine: Machine) -> None:
    clock = SteadyClock.begin(WALL)
    machine.boot, machine.monotonic, machine.wall = "b", 7, WALL - 60
    assert clock.now() == WALL
    machine.pass_seconds(5)
    machine.wall += 3_600
    assert clock.now() == WALL + 5

"""Tests who may commit, and who may begin, while a router hands its lanes over to a standby."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.core.errors import SetupError
from streaming_jobs.router_job import hand_over
from streaming_jobs.router_job.checkpoint import committed_offsets
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.hand_over import EarlyLanes, wait_for_standby
from streaming_jobs.router_job.lock import BEGINS, LEAVES, READY, STANDS_BY, CheckpointLock, is_held, is_held_by_jvm
from tests.integration.mesh import wait_until

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def jvm_with(lock: Path) -> Iterator[None]:
    """Holds a lock as a JVM does, in a process of its own."""
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield
        process.communicate()


@contextmanager
def held(checkpoint: Path, name: str) -> Iterator[None]:
    with CheckpointLock(checkpoint, name) as lock:
        assert lock.take_if_free()
        yield


def test_without_a_standby_nobody_is_waited_for(tmp_path: Path) -> None:
    assert wait_for_standby(tmp_path)


def test_a_lock_of_a_jvm_is_seen_for_as_long_as_it_lives(tmp_path: Path) -> None:
    assert not is_held_by_jvm(tmp_path, BEGINS)
    assert not list(tmp_path.iterdir())
    with jvm_with(tmp_path / BEGINS):
        assert is_held_by_jvm(tmp_path, BEGINS)
    assert not is_held_by_jvm(tmp_path, BEGINS)


def test_the_router_that_leaves_commits_again_when_the_standby_is_ready(tmp_path: Path) -> None:
    answers: list[bool] = []
    with held(tmp_path, STANDS_BY):
        leaving = threading.Thread(target=lambda: answers.append(wait_for_standby(tmp_path)))
        leaving.start()
        wait_until(lambda: is_held(tmp_path, LEAVES), "it says that it leaves")
        with jvm_with(tmp_path / BEGINS):
            assert answers == []
            with held(tmp_path, READY):
                leaving.join(10)
    assert answers == [True]
    assert not is_held(tmp_path, LEAVES)


def test_a_standby_that_has_gone_is_not_waited_for(tmp_path: Path) -> None:
    answers: list[bool] = []
    with held(tmp_path, STANDS_BY):
        leaving = threading.Thread(target=lambda: answers.append(wait_for_standby(tmp_path)))
        leaving.start()
        wait_until(lambda: is_held(tmp_path, LEAVES), "it says that it leaves")
    leaving.join(10)
    assert answers == [True]


def test_while_queries_begin_elsewhere_nothing_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_over, "BEGIN_SECONDS", 0.05)
    with jvm_with(tmp_path / BEGINS):  # its driver was killed
        assert not wait_for_standby(tmp_path)


class Begins:
    """The lock of a JVM."""

    is_held = True

    def release(self) -> None:
        self.is_held = False


class EarlyLane:
    def __init__(self, number: int, gate: Gate) -> None:
        self.name, self.gate = f"lane-{number}", gate
        self.failed: str | None = None
        self.is_stopped = False

    def failure(self) -> str | None:
        return self.failed

    def stop(self) -> None:
        self.is_stopped = True


def early_lanes(folders: list[Path], begins: Begins) -> EarlyLanes:
    gates, lock = folders[0].with_name("gates"), cast(Any, begins)
    gates.mkdir()
    return EarlyLanes(folders, gates, lock)


def commit(lane: Path, batch: int, offset: int) -> None:
    for name in ("commits", "offsets"):
        (lane / name).mkdir(parents=True, exist_ok=True)
    (lane / "commits" / str(batch)).write_text("v1\n{}")
    (lane / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"t.raw":{{"0":{offset}}}}}')


def test_a_lane_goes_on_from_the_commit_that_it_knows_and_leaves_out_what_was_committed_since(tmp_path: Path) -> None:
    folder, begins, lanes = tmp_path / "lane-0", Begins(), list[Any]()
    commit(folder, 3, 12)
    early = early_lanes([folder], begins)

    def start(number: int, gate: Gate) -> Any:
        lanes.append(EarlyLane(number, gate))
        return lanes[-1]

    early.start(start)
    [lane] = lanes
    first_output: list[int] = []
    worker = threading.Thread(target=lambda: first_output.append(lane.gate.wait()))
    worker.start()
    wait_until(early.are_ready, "its worker stands at the gate")
    commit(folder, 4, 30)
    assert first_output == []
    assert begins.is_held
    assert early.open() == lanes
    worker.join(10)
    assert first_output == [30]
    assert committed_offsets(folder) == {0: 12}
    assert not begins.is_held


def test_lanes_that_are_added_are_told_from_those_that_had_begun(tmp_path: Path) -> None:
    folders = [tmp_path / "lane-0", tmp_path / "lane-1"]
    commit(folders[0], 3, 12)
    early = early_lanes(folders, Begins())
    folders[1].mkdir()  # Spark does so when its query starts
    assert early.adds_lanes
    assert early.begun == {0}
    assert not early.are_ready()


def test_lanes_that_fail_to_begin_are_stopped_and_their_workers_route_nothing(tmp_path: Path) -> None:
    begins, lanes = Begins(), list[Any]()
    early = early_lanes([tmp_path / "lane-0", tmp_path / "lane-1"], begins)

    def start(number: int, gate: Gate) -> Any:
        if number == 1:
            raise SetupError("lane-1 cannot begin")
        lanes.append(EarlyLane(number, gate))
        return lanes[-1]

    with pytest.raises(SetupError, match="lane-1 cannot begin"):
        early.start(start)
    [lane] = lanes
    lane.failed = "it was stopped"
    with pytest.raises(SetupError, match="lane-0 ended: it was stopped"):
        early.are_ready()
    early.stop()
    assert lane.is_stopped
    with pytest.raises(FileNotFoundError):
        lane.gate.wait()
    assert not begins.is_held

"""Tests whether the open batches of a router that stops can be ended with a commit."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from streaming_jobs.router_job import orderly_stop
from streaming_jobs.router_job.orderly_stop import end_batches


class Jvm:
    """Spark's own side of the clock that its readers ask."""

    def __init__(self) -> None:
        self.clock_milliseconds = 0
        clock = SimpleNamespace(setClock=self._set, getTimeMillis=lambda: self.clock_milliseconds)
        low_latency = {"LowLatencyClock$": SimpleNamespace(**{"MODULE$": clock})}
        sql = SimpleNamespace(execution=SimpleNamespace(datasources=SimpleNamespace(v2=SimpleNamespace(**low_latency))))
        spark = SimpleNamespace(sql=sql, util=SimpleNamespace(ManualClock=int))
        self.org = SimpleNamespace(apache=SimpleNamespace(spark=spark))

    def _set(self, clock: int) -> None:
        self.clock_milliseconds = clock


class LostJvm:
    @property
    def org(self) -> Any:
        raise ConnectionRefusedError


def spark(jvm: object, master: str = "local[5]") -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master), _jvm=jvm)


def must_not_be_called() -> NoReturn:
    raise AssertionError("nothing can come of it")


def test_batches_of_this_jvm_end_once_readers_look_at_the_clock() -> None:
    jvm, woken_at = Jvm(), list[int]()
    looks = iter([False, False, True])
    assert end_batches(spark(jvm), nullcontext(lambda: woken_at.append(jvm.clock_milliseconds)), lambda: next(looks))
    (clock,) = woken_at  # the clock was put ahead before anybody was woken
    assert clock > 3_600_000


def test_batches_that_began_while_the_clock_was_ahead_end_too() -> None:
    jvm, woken_at = Jvm(), list[int]()
    for _ in range(2):
        assert end_batches(spark(jvm), nullcontext(lambda: woken_at.append(jvm.clock_milliseconds)), lambda: True)
    first, second = woken_at
    assert second > first + 3_600_000


@pytest.mark.parametrize(
    "master", ["k8s://https://kubernetes.default.svc", "spark://driver:7077", "local-cluster[2,1,1024]"]
)
def test_tasks_on_executors_are_stopped_as_they_are(master: str) -> None:
    jvm = Jvm()
    assert not end_batches(spark(jvm, master), nullcontext(must_not_be_called), must_not_be_called)
    assert jvm.clock_milliseconds == 0


def test_a_jvm_that_is_gone_is_not_waited_for() -> None:
    assert not end_batches(spark(LostJvm()), nullcontext(must_not_be_called), must_not_be_called)


def test_a_broker_that_is_gone_is_not_waited_for() -> None:
    def wake() -> None:
        raise ConnectionRefusedError

    assert not end_batches(spark(Jvm()), nullcontext(wake), must_not_be_called)


def test_a_lane_that_does_not_commit_is_waited_for_no_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderly_stop, "WAIT_SECONDS", 0.05)
    assert not end_batches(spark(Jvm()), nullcontext(lambda: None), lambda: False)

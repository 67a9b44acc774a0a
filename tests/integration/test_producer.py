"""The edge's producer against a real broker: when it reports what became of a record, and in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gateway.config import load
from gateway.edge.producer import NotTaken, Producer
from gateway.kafka.topics import ensure_topics
from tests.integration.mesh import TestMesh, wait_until


class Reports:
    """A producer with a topic of its own, and what it has reported."""

    def __init__(self, mesh: TestMesh, folder: Path) -> None:
        path = folder / "meshgate.yaml"
        kafka = {"bootstrap": f"127.0.0.1:{mesh.ports['kafka']}", "partitions": 1}
        path.write_text(yaml.safe_dump({"mesh": folder.name.replace("_", "-"), "kafka": kafka}))
        config = load(path)
        ensure_topics(config)
        self._topic = config.topic("raw")
        self.producer = Producer(config)
        self.offsets: list[int] = []
        self.threads: list[str] = []

    def send(self, *, is_awaited: bool, topic: str | None = None) -> None:
        self.producer.send(topic or self._topic, b"record", self._told, partition=0, is_awaited=is_awaited)

    def _told(self, error: NotTaken | None, offset: int, seconds: float) -> None:
        assert error is None
        assert 0 < seconds < 30
        self.offsets.append(offset)
        self.threads.append(threading.current_thread().name)


@pytest.fixture
def reports(mesh: TestMesh, tmp_path: Path) -> Iterator[Reports]:
    made = Reports(mesh, tmp_path)
    yield made
    made.producer.close(5.0)


def test_a_result_that_somebody_waits_for_comes_by_itself_and_brings_those_before_it(reports: Reports) -> None:
    reports.send(is_awaited=False)
    reports.send(is_awaited=True)
    wait_until(lambda: len(reports.offsets) == 2, "both results")
    assert reports.offsets == [0, 1]
    assert reports.threads[1] == "produced"


def test_a_result_that_nobody_waits_for_comes_when_results_are_collected(reports: Reports) -> None:
    reports.send(is_awaited=True)
    wait_until(lambda: reports.offsets == [0], "the first result")
    reports.send(is_awaited=False)

    def collected() -> bool:
        reports.producer.collect()
        return len(reports.offsets) == 2

    wait_until(collected, "the second result")
    assert reports.offsets == [0, 1]


def test_results_come_in_their_order_whoever_reports_them(reports: Reports) -> None:
    for number in range(3_000):
        reports.send(is_awaited=number % 7 == 0)
        reports.producer.collect()
    reports.producer.flush(30.0)
    wait_until(lambda: len(reports.offsets) == 3_000, "all results")
    assert reports.offsets == list(range(3_000))

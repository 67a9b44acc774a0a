"""A worker routes each record with the memory of exactly those before it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.records import event_records
from gateway.records.raw_log.container import ContainerBuilder
from streaming_jobs.router_job.id_log import NoMemory, ids_folder
from streaming_jobs.router_job.ordered_pass import OrderedPass
from streaming_jobs.router_job.snapshot import SnapshotWriter
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.record_outputs import RoutedRecord
from tests.unit.routing.asking import client, event
from tests.unit.routing.mesh_in_a_log import NOW, MeshInALog


class WorkerInALog:
    """Routes records of yamp events, by their numbers."""

    def __init__(self, checkpoint: Path) -> None:
        self.mesh = MeshInALog(partitions=2)
        self.checkpoint = checkpoint
        self._source = client(self.mesh).source
        self._begin()

    def _begin(self) -> None:
        self.rows = FrameRouter(self.mesh.state)
        self.pass_ = OrderedPass(self.rows, self.checkpoint)

    def restart(self) -> None:
        """Makes a new worker, which knows nothing."""
        self.pass_.close()
        self._begin()

    def snapshot(self, offset: int, rows: list[RoutedRecord], partition: int = 0) -> None:
        SnapshotWriter(str(self.checkpoint), partition, offset)([(row.log_seconds, row.ids) for row in rows])

    def route(self, offset: int, *numbers: int, partition: int = 0) -> RoutedRecord:
        builder = ContainerBuilder(self._source.edge, self._source.epoch)
        for number in numbers:
            builder.add(self._source, NOW * 1_000_000, event("a.x", number))
        return self.pass_.route(builder.build(), partition, offset, NOW)


def passed(routed: RoutedRecord) -> list[int]:
    """Returns the numbers of the events that were no repeats."""
    outs = [out for out in routed.outs if out.topic == "t.events"]
    events = [event for out in outs for event in event_records.read(out.headers, out.value or b"")]
    return [int(event.message_id.replace("-", ""), 16) for event in events]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerInALog]:
    worker = WorkerInALog(tmp_path)
    worker.snapshot(10, [])
    yield worker
    worker.pass_.close()


def test_records_in_their_order_need_the_snapshot_once(worker: WorkerInALog) -> None:
    assert passed(worker.route(10, 1, 2, 1)) == [1, 2]
    shutil.rmtree(ids_folder(worker.checkpoint, 0))
    assert passed(worker.route(11, 2, 3)) == [3]
    assert passed(worker.route(12, 1, 3, 4)) == [4]


def test_a_new_worker_knows_what_the_snapshot_holds(worker: WorkerInALog) -> None:
    rows = [worker.route(10, 1, 2), worker.route(11, 3)]
    worker.snapshot(12, rows)
    worker.restart()
    assert passed(worker.route(12, 1, 2, 3, 4)) == [4]
    assert worker.pass_.rebuild_seconds > 0


def test_a_new_worker_knows_what_the_one_before_it_has_written(worker: WorkerInALog) -> None:
    worker.route(10, 1, 2)
    worker.route(11, 3)
    worker.restart()
    assert passed(worker.route(12, 1, 2, 3, 4)) == [4]


def test_a_new_worker_passes_again_what_was_not_committed(worker: WorkerInALog) -> None:
    worker.route(10, 1)
    first = [worker.route(11, 2), worker.route(12, 1, 3)]
    worker.restart()
    assert [worker.route(11, 2), worker.route(12, 1, 3)] == first
    worker.restart()
    assert passed(worker.route(13, 1, 2, 3, 4)) == [4]


def test_a_batch_that_is_tried_again_passes_what_it_passed_before(worker: WorkerInALog) -> None:
    first = [worker.route(10, 1), worker.route(11, 1, 2)]
    assert [worker.route(10, 1), worker.route(11, 1, 2)] == first


@pytest.mark.parametrize("offset", [9, 12, 0])
def test_a_record_of_another_place_is_not_routed(worker: WorkerInALog, offset: int) -> None:
    worker.route(10, 1)
    with pytest.raises(NoMemory):
        worker.route(offset, 1)


def test_a_record_of_another_partition_is_not_routed(worker: WorkerInALog) -> None:
    worker.route(10, 1)
    with pytest.raises(NoMemory, match="of partition 1"):
        worker.route(11, 1, partition=1)


def test_after_a_place_without_a_memory_the_worker_goes_on_from_the_snapshot_alone(worker: WorkerInALog) -> None:
    worker.route(10, 1)
    with pytest.raises(NoMemory):
        worker.route(20, 2)
    assert passed(worker.route(10, 1)) == [1]


def test_a_record_that_fails_half_way_leaves_nothing_of_it_behind(
    worker: WorkerInALog, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.route(10, 1)
    with monkeypatch.context() as failing:
        failing.setattr(worker.rows.known, "added_row", fail)
        with pytest.raises(MemoryError):
            worker.route(11, 2)
    assert passed(worker.route(11, 2)) == [2], "what the failed try had marked is no repeat"


def fail() -> bytes:
    raise MemoryError

"""A lane's worker reads its memory while Spark starts the query that will bring it records."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.core.clock import now_us
from gateway.records.raw_log.container import ContainerBuilder
from streaming_jobs.router_job.id_log import NoMemory, ids_folder
from streaming_jobs.router_job.worker import PreparePass, RoutePass, Worker, worker
from tests.unit.router_job.lane_place import OFFSET, PARTITION, begun_lane

RECORD = ContainerBuilder("edge-0", 1).build()


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return begun_lane(tmp_path, monkeypatch)


def begun(checkpoint: Path) -> Worker:
    return worker(str(checkpoint.parents[1] / "meshgate.yaml"), None)


def test_what_was_prepared_is_not_read_again(checkpoint: Path) -> None:
    prepared = begun(checkpoint)
    prepared.begin_to_prepare(PARTITION, OFFSET)
    assert prepared._preparing is not None
    prepared._preparing.join()
    shutil.rmtree(ids_folder(checkpoint, PARTITION))
    _, offset, ids, outs = prepared.route(RECORD, PARTITION, OFFSET)
    assert (offset, ids, outs) == (OFFSET, b"", [])


def test_the_first_record_waits_for_what_is_prepared(checkpoint: Path) -> None:
    path = str(checkpoint.parents[1] / "meshgate.yaml")
    assert PreparePass(path, None, PARTITION, OFFSET)(0) == 0
    log_seconds, *_ = RoutePass(path)(RECORD, PARTITION, OFFSET)
    assert log_seconds <= now_us() // 1_000_000
    begun(checkpoint)._pass.close()


def test_what_was_prepared_for_another_place_is_not_used(checkpoint: Path) -> None:
    worker = begun(checkpoint)
    worker.begin_to_prepare(PARTITION, OFFSET + 1)
    worker.route(RECORD, PARTITION, OFFSET)
    assert worker._pass.stands_before(PARTITION, OFFSET + 1)
    worker._pass.close()


def test_without_files_of_its_place_nothing_is_routed(checkpoint: Path) -> None:
    with pytest.raises(NoMemory):
        begun(checkpoint).route(RECORD, PARTITION, OFFSET + 1)

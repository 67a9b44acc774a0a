"""A worker at its gate routes nothing, and leaves out what another router has written already."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from gateway.records.raw_log.container import ContainerBuilder
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.id_log import ids_folder
from streaming_jobs.router_job.plan import PlainRow
from streaming_jobs.router_job.worker import RoutePass, Worker, worker
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.record_outputs import RoutedRecord
from tests.integration.mesh import wait_until
from tests.unit.router_job.lane_place import OFFSET, PARTITION, begun_lane

RECORD = ContainerBuilder("edge-0", 1).build()


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return begun_lane(tmp_path, monkeypatch)


OUT = OutputRecord("t.events", 0, b"key", b"value")


def lane_worker(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Returns the worker, whose records give an output each."""
    begun = worker(str(checkpoint.parents[1] / "meshgate.yaml"), None)
    route_record = begun._rows.route_record

    def with_output(value: bytes, partition: int, offset: int, now_seconds: int) -> RoutedRecord:
        routed = route_record(value, partition, offset, now_seconds)
        return routed._replace(outs=[OUT])

    monkeypatch.setattr(begun._rows, "route_record", with_output)
    return begun


def shipped(checkpoint: Path, gate: Gate) -> RoutePass:
    route_pass = RoutePass(str(checkpoint.parents[1] / "meshgate.yaml"), None, gate)
    copy = pickle.loads(pickle.dumps(route_pass))  # noqa: S301 - as Spark ships it
    assert isinstance(copy, RoutePass)
    return copy


def test_nothing_is_routed_before_the_gate_is_open_and_what_was_written_is_left_out(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = lane_worker(checkpoint, monkeypatch)
    gate = Gate(tmp_path / "gate")
    route = shipped(checkpoint, gate)
    rows: list[PlainRow] = []
    first = threading.Thread(target=lambda: rows.append(route(RECORD, PARTITION, OFFSET)))
    first.start()
    wait_until(gate.has_worker, "the worker stands at its gate")
    assert begun._pass.stands_before(PARTITION, OFFSET)  # it has read its ids meanwhile
    assert rows == []
    gate.open(OFFSET + 2)
    first.join(10)
    rows += [route(RECORD, PARTITION, OFFSET + further) for further in (1, 2, 3)]
    assert [row[1] for row in rows] == [OFFSET, OFFSET + 1, OFFSET + 2, OFFSET + 3]
    assert [row[3] for row in rows] == [[], [], [OUT], [OUT]]
    begun._pass.close()


def test_a_later_task_of_the_query_passes_the_gate_at_once(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = lane_worker(checkpoint, monkeypatch)
    gate = Gate(tmp_path / "gate")
    gate.open(0)
    for offset in (OFFSET, OFFSET + 1):
        *_, outs = shipped(checkpoint, gate)(RECORD, PARTITION, offset)
        assert outs == [OUT]
    begun._pass.close()


def test_ids_that_were_carried_over_meanwhile_are_read(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = lane_worker(checkpoint, monkeypatch)
    gate = Gate(tmp_path / "gate", reads_again=True)
    gate.open(0)
    begun.prepare(PARTITION, OFFSET)
    before = begun._rows.known
    shipped(checkpoint, gate)(RECORD, PARTITION, OFFSET)
    assert begun._rows.known is not before
    begun._pass.close()


def test_without_its_gate_a_worker_routes_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = lane_worker(checkpoint, monkeypatch)
    route = shipped(checkpoint, Gate(tmp_path / "gate"))
    (tmp_path / "gate").unlink()
    with pytest.raises(FileNotFoundError):
        route(RECORD, PARTITION, OFFSET)
    assert sum(part.stat().st_size for part in ids_folder(checkpoint, PARTITION).iterdir()) > 0
    begun._pass.close()

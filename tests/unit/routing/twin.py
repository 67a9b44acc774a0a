"""One record, routed twice: frame by frame by the plain path, and with its common frames in columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gateway.records import egress_codec
from gateway.records.egress import Entry
from streaming_jobs.routing.columnar import CommonRecord
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.record_outputs import RoutedRecord
from tests.unit.routing.mesh_in_a_log import NOW, MeshInALog


@dataclass
class Written:
    """What one record made."""

    routed: RoutedRecord
    in_columns: int = 0

    def of(self, topic: str) -> list[OutputRecord]:
        return [out for out in self.routed.outs if out.topic == f"t.{topic}"]

    @property
    def others(self) -> list[OutputRecord]:
        return [out for out in self.routed.outs if out.topic not in ("t.events", "t.egress")]

    def entries(self) -> list[tuple[int | None, Entry]]:
        return [(out.partition, entry) for out in self.of("egress") for entry in egress_codec.decode(out.value or b"")]


class Twin:
    """A mesh whose worker knows the ids of the records before. `in_columns`: its common frames take the fast pass."""

    def __init__(self, mesh: MeshInALog, *, in_columns: bool) -> None:
        self.mesh = mesh
        self.functions = mesh._functions = FrameRouter(mesh.state, in_columns=in_columns)
        self._ends = [0] * mesh.partitions

    def log(self, record: bytes, partition: int) -> Iterator[Written]:
        """Routes a record, and those that the router writes into `raw` because of it."""
        offset = self._ends[partition]
        self._ends[partition] += 1
        with _counting() as counted:
            written = Written(self.functions.route_record(record, partition, offset, NOW))
        written.in_columns = sum(counted)
        yield written
        for out in written.of("raw"):
            if out.value is not None:
                yield from self.log(out.value, out.partition or 0)


@contextmanager
def _counting() -> Iterator[list[int]]:
    """Collects how many frames each run of the fast pass takes."""
    counted: list[int] = []
    route = CommonRecord.route

    def counting(common: CommonRecord, row: int, *others: Any) -> int:
        stop = route(common, row, *others)
        counted.append(stop - row)
        return stop

    CommonRecord.route = counting  # type: ignore[method-assign, assignment]
    try:
        yield counted
    finally:
        CommonRecord.route = route  # type: ignore[method-assign]

"""Tests what is kept of a frame that is refused."""

from __future__ import annotations

import pytest

from gateway.records.rejected_frame import KEPT_BYTES
from streaming_jobs.router_job.plan import sink_options
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import MeshInALog


@pytest.mark.parametrize(("size", "missing"), [(KEPT_BYTES, None), (KEPT_BYTES + 1, b"1"), (1_000_000, b"995904")])
def test_its_first_bytes_are_kept_and_how_many_are_missing(size: int, missing: bytes | None) -> None:
    mesh = MeshInALog()
    frame = b"\xff" * size
    event_id = mesh.log(client(mesh).source, frame)
    (refused,) = mesh.of("rejected")
    headers = dict(refused.headers)
    assert refused.value == frame[:KEPT_BYTES]
    assert (headers["event_id"].decode(), headers.get("truncated_bytes")) == (event_id, missing)


def test_what_is_no_record_at_all_is_cut_too() -> None:
    mesh = MeshInALog()
    mesh.append(b"x" * 10_000)
    (refused,) = mesh.of("rejected")
    assert len(refused.value or b"") == KEPT_BYTES


def test_all_that_the_router_writes_is_compressed() -> None:
    assert sink_options(MeshInALog().state.config)["kafka.compression.type"] == "zstd"

"""Finds where a frame stands in the raw log."""

from __future__ import annotations

from gateway.config import load
from gateway.core.ids import event_id
from gateway.core.reasons import Rejected
from gateway.inspect.history.topics import History
from gateway.records.raw_log.container import decode_record
from tests.integration.mesh import TestMesh, wait_until


def places(mesh: TestMesh, data: bytes, count: int = 1) -> list[str]:
    """The event ids of the first so many frames with these bytes, once they are there."""
    found: list[str] = []

    def logged() -> bool:
        found[:] = _places(mesh, data)
        return len(found) >= count

    wait_until(logged, f"{count} frames of {len(data)} bytes in the raw log")
    return found


def _places(mesh: TestMesh, data: bytes) -> list[str]:
    found = []
    with History(load(mesh.config_file)) as history:
        for record in history.read("raw", history.bounds("raw")):
            try:
                frames = decode_record(record.value or b"").frames
            except Rejected:  # other tests write what is no record
                continue
            for index, frame in enumerate(frames):
                if frame.data == data and frame.again is None:
                    found.append((record.offset, index, event_id(record.partition, record.offset, index)))
    return [name for _, _, name in sorted(found)]

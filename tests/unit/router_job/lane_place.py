"""Makes the place of one lane whose worker may begin: a configuration, keys, and ids up to an offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.kafka.interest_reader import InterestReader
from streaming_jobs.router_job.snapshot import SnapshotWriter

PARTITION, OFFSET = 1, 10


def begun_lane(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the checkpoint. No worker reads interests meanwhile."""
    (folder / "meshgate.yaml").write_text("mesh: demo")
    (folder / "keys.yaml").write_text("nodes: {}")
    monkeypatch.setattr(InterestReader, "catch_up", lambda _reader, _table: None)
    checkpoint = folder / "state" / "router"
    SnapshotWriter(str(checkpoint), PARTITION, OFFSET)([])
    (checkpoint / "counts").mkdir()
    return checkpoint

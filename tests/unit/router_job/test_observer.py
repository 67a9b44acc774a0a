"""The router's observer: what it says of the trust store."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from gateway.config import load
from streaming_jobs.router_job.metrics import RouterMetrics
from streaming_jobs.router_job.observer import _Watch

NODES = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")


def store_of(*nodes: str) -> str:
    return "nodes:\n" + "".join(f"  {node}: {{keys: {{'00000001': {{hmac: '{'ab' * 32}'}}}}}}\n" for node in nodes)


def test_a_change_of_the_trust_store_is_told_once_and_one_that_cannot_be_used_with_its_faults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    keys = tmp_path / "keys.yaml"
    keys.write_text(store_of(NODES[0]))
    config = load(tmp_path / "meshgate.yaml")
    watch = _Watch(config, RouterMetrics(config, CollectorRegistry()), cast(Any, None))
    now = 0.0
    watch._trust._clock = lambda: now
    watch._trust._next_look = watch._trust._next_look_at_all = now
    for text in (store_of(*NODES), "nodes:\n  zz: {}\n  yy: {}\n"):
        keys.write_text(text)
        for _ in range(3):
            now += 1_000
            watch._count_keys()
    in_force, broken = (record.getMessage() for record in caplog.records)
    assert in_force == "the trust store has changed and is in force"
    assert broken.startswith(f"the trust store has changed and cannot be used; the old keys hold: {keys}:2: nodes.zz")
    assert f"; {keys}:3: nodes.yy" in broken

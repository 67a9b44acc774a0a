"""What ends the router before it starts a Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gateway.config import ConfigError, load
from streaming_jobs.router.job import Router


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (None, "cannot read it"),
        ("gateway: {node: 1f9cf4b7-17cf-4c9d-a858-9dc2189fefda, key_id: 000000ff, ed25519_private: zz}", "32 bytes"),
    ],
)
def test_a_trust_store_that_is_of_no_use_is_told_at_once(tmp_path: Path, keys: str | None, expected: str) -> None:
    (tmp_path / "meshgate.yaml").write_text("mesh: demo")
    if keys is not None:
        (tmp_path / "keys.yaml").write_text(keys)
    router = Router(load(tmp_path / "meshgate.yaml"))
    with pytest.raises(ConfigError) as refused:
        router.run(threading.Event())
    assert expected in str(refused.value)

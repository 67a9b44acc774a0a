"""Tests what ends the router before it starts a Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gateway.config import ConfigError, load
from streaming_jobs.router_job.job import Router, local_master


def test_a_change_of_the_configuration_is_told_and_one_that_needs_a_restart_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "meshgate.yaml"
    path.write_text("mesh: demo")
    router = Router(load(path))
    caplog.set_level("INFO")
    for text in ("mesh: demo\nrequest_timeout_seconds: 7", "mesh: other\nrequest_timeout_seconds: 7"):
        path.write_text(text)
        router.reload()
        router._tell_reloaded()
    assert [record.message for record in caplog.records] == [
        "the configuration has changed and is in force",
        "not reloaded: a change of mesh needs a restart",
    ]
    assert router._settings.config.request_timeout_seconds == 7


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


def test_a_number_of_lanes_has_no_effect_and_that_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "meshgate.yaml").write_text("mesh: demo\nkafka: {partitions: 4}\nrouter: {lanes: 9}")
    config = load(tmp_path / "meshgate.yaml")
    with pytest.raises(ConfigError):  # there is no trust store
        Router(config).run(threading.Event())
    [line] = [record.message for record in caplog.records]
    assert "router.lanes: it has no effect: each of the 4 raw partitions has a lane of its own" in line
    assert local_master(config) == "local[5]"  # a task for each lane, and one to spare

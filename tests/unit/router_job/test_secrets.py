"""Tests that what Spark ships to its workers, and what they keep, holds no secret of a connection."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pytest

from gateway.config import load
from gateway.config.watch import INTERVAL_SECONDS, Reloaded
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from streaming_jobs.reprocess.spark_tables import ReprocessRecords, ReprocessWorker
from streaming_jobs.router_job.worker import RoutePass, Worker

CLUSTER_KEY, PASSWORD, OTHER, COMPONENT = "00c1d2e3f4a5", "hunter2", "hunter3", "hunter4"
SECRETS = (CLUSTER_KEY, PASSWORD, OTHER, COMPONENT)
CONFIGURATION = f"""
mesh: demo
listeners:
  - {{name: calls, protocol: wolpertinger, listen: "tcp://127.0.0.1:1", require_trust: 3, compress_over_bytes: 7,
     auth: {{cluster_key: "{CLUSTER_KEY}", users: {{bob: {PASSWORD}}}}}}}
  - {{name: chat, protocol: wolpertinger, listen: "xmpp://127.0.0.1:2",
     xmpp: {{domain: mesh.localhost, secret: {COMPONENT}}}}}
peers:
  - {{name: plant, protocol: wolpertinger, connect: "tcp://127.0.0.1:3", login: [cluster, user], login_user: eve,
     auth: {{cluster_key: "{CLUSTER_KEY}", users: {{eve: {OTHER}}}}}}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "meshgate.yaml"
    file.write_text(CONFIGURATION)
    (tmp_path / "keys.yaml").write_text("nodes: {}")
    return file


def calls(worker: Worker) -> WolpertingerOptions:
    options = worker._state.spoken("calls", "wolpertinger").options
    assert isinstance(options, WolpertingerOptions)
    return options


def told(*things: object) -> list[str]:
    """The secrets in them."""
    pickled = pickle.dumps(things)
    return [secret for secret in SECRETS if secret.encode() in pickled]


def test_the_configuration_itself_has_them(path: Path) -> None:
    assert told(load(path)) == list(SECRETS)


def test_what_is_shipped_is_a_path_and_a_clock(path: Path) -> None:
    assert told(RoutePass(str(path)), ReprocessRecords(str(path), None)) == []


def test_what_decides_about_frames_has_everything_but_them(path: Path) -> None:
    options = calls(Worker(str(path)))
    assert (options.require_trust, options.compress_over_bytes) == (3, 7)


def test_a_worker_keeps_none_of_them_and_gets_none_with_a_new_configuration(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    worker = Worker(str(path))
    assert told(worker._watch.config, worker._state.config, worker._state.options) == []
    path.write_text(CONFIGURATION.replace("compress_over_bytes: 7", "compress_over_bytes: 8"))
    now += 2 * INTERVAL_SECONDS
    worker._refresh()
    assert calls(worker).compress_over_bytes == 8
    assert told(worker._watch.config, worker._state.config, worker._state.options) == []


def test_a_worker_counts_beside_the_checkpoint_of_its_router(path: Path, tmp_path: Path) -> None:
    assert Worker(str(path), str(tmp_path / "x"))._checkpoint == tmp_path / "x" / "state" / "router"


def test_a_new_secret_is_nothing_new_for_a_worker(path: Path) -> None:
    worker = Worker(str(path))
    path.write_text(CONFIGURATION.replace(PASSWORD, "changed"))
    assert worker._watch.reread() is None
    path.write_text(CONFIGURATION.replace("require_trust: 3", "require_trust: 4"))
    assert isinstance(worker._watch.reread(), Reloaded)


def test_a_judge_of_the_past_keeps_none_of_them(path: Path) -> None:
    judge = ReprocessWorker(str(path), None)
    assert told(judge._config, judge._judge._config, judge._judge._state.options) == []

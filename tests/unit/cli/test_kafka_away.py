"""Verbs that look into Kafka's topics where nobody answers: one line says so, and why, after a few seconds at most."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from gateway.cli.console import Exit
from gateway.cli.tap import SILENT_SECONDS, KafkaWatch
from gateway.config import parse
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.kafka.ports import accepts_connections
from gateway.kafka.topics import LEAST_TRY_SECONDS, LOOK_SECONDS, connect_admin
from tests.integration.mesh import free_port, wait_until
from tests.unit.cli.running import run

LOOKING = [
    ("tap", "--at", "raw"),
    ("tap", "--at", "events"),
    ("interests", "list"),
    ("rejected", "list"),
    ("rejected", "show", "0-0-0"),
    ("rejected", "redrive", "--all"),
    ("replay", "--from", "-5m"),
    ("replay", "--from", "-5m", "--dry-run"),
    ("trace", "0-0-0"),
    ("audit",),
    ("sql", "SELECT * FROM events"),
    ("topics", "describe", "--wait", "0"),
    ("topics", "create", "--wait", "0"),
    ("topics", "grow", "--wait", "0"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.kafka.topics.LOOK_SECONDS", 0.0)
    return tmp_path


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        yield server.getsockname()[1]


def configured(folder: Path, port: int) -> None:
    (folder / "meshgate.yaml").write_text(f"mesh: demo\nkafka: {{bootstrap: '127.0.0.1:{port}'}}")


@pytest.mark.parametrize("verb", LOOKING, ids=" ".join)
def test_a_broker_that_is_not_there_is_told_in_one_line_with_the_cause(folder: Path, verb: tuple[str, ...]) -> None:
    configured(folder, 1)
    result = run(*verb)
    assert result.exit_code == Exit.UNAVAILABLE
    (line,) = result.stderr.splitlines()
    assert line == "meshgate: kafka.bootstrap 127.0.0.1:1 does not answer (connection refused): is Kafka running?"


def test_where_kafka_is_the_mesh_s_own_it_is_told_what_would_start_it(folder: Path) -> None:
    (folder / "meshgate.yaml").write_text("mesh: demo\nkafka: {listen: '127.0.0.1:1'}")
    (line,) = run("interests", "list").stderr.splitlines()
    assert line.endswith("127.0.0.1:1 does not answer (connection refused): is the mesh running? (meshgate up)")


@pytest.mark.parametrize("verb", LOOKING, ids=" ".join)
def test_one_that_takes_connections_and_is_silent_is_told_too(folder: Path, silent: int, verb: tuple[str, ...]) -> None:
    configured(folder, silent)
    result = run(*verb)
    assert result.exit_code == Exit.UNAVAILABLE
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"meshgate: kafka.bootstrap 127.0.0.1:{silent} does not answer (")


class Waiting:
    """A Kafka that never answers, and the clock, which only its waiting moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def list_topics(self, timeout: float) -> Any:
        self.now += timeout
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, timeout: float) -> int:
        return 0


@pytest.mark.parametrize("seconds", [0.0, 1.0, LOOK_SECONDS, 30.0])
def test_it_is_asked_for_as_long_as_was_said_and_hardly_longer(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    kafka = Waiting()
    monkeypatch.setattr("gateway.kafka.topics.AdminClient", lambda *_, **__: kafka)
    monkeypatch.setattr("gateway.kafka.topics.time", SimpleNamespace(monotonic=kafka.monotonic, sleep=kafka.sleep))
    config = parse("mesh: demo\nkafka: {bootstrap: '127.0.0.1:1'}", Path("meshgate.yaml"))
    with pytest.raises(SetupError):
        connect_admin(config, seconds)
    assert seconds <= kafka.now - 1_000 <= seconds + LEAST_TRY_SECONDS


def test_the_cause_is_told_and_not_that_all_brokers_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(settings: dict[str, Any], **_: Any) -> Waiting:
        settings["error_cb"](KafkaError(KafkaError._TRANSPORT, "m:1/bootstrap: Connection refused"))
        settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        return Waiting()

    monkeypatch.setattr("gateway.kafka.topics.AdminClient", refusing)
    config = parse("mesh: demo\nkafka: {bootstrap: '127.0.0.1:1'}", Path("meshgate.yaml"))
    with pytest.raises(SetupError, match="connection refused"):
        connect_admin(config, 0)


def test_a_tap_says_once_that_kafka_has_gone_and_once_that_it_is_back(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    watch = KafkaWatch("k:9092", lambda: now)
    for has_records, answers in ((True, False), (False, False), (False, False), (False, True), (False, True)):
        now += SILENT_SECONDS
        watch.look(has_records, lambda answers=answers: answers)  # type: ignore[misc]
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["kafka k:9092 does not answer: waiting for it", "kafka k:9092 answers again"]


def test_a_tap_does_not_ask_kafka_while_records_come() -> None:
    watch = KafkaWatch("k:9092", lambda: 0.0)
    watch.look(True, lambda: pytest.fail("it is asked"))
    watch.look(False, lambda: pytest.fail("it is asked too early"))


def test_who_only_looks_waits_for_a_few_seconds() -> None:
    assert LOOK_SECONDS < 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_edge_that_waits_for_kafka_ends_when_it_is_told_to(folder: Path, number: signal.Signals) -> None:
    port = free_port()
    text = f"{{mesh: demo, kafka: {{bootstrap: '127.0.0.1:1'}}, edge: {{management: '127.0.0.1:{port}'}}}}"
    (folder / "meshgate.yaml").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, "-m", "gateway.cli", "edge"], env=environment) as edge:
        wait_until(lambda: accepts_connections(HostPort("127.0.0.1", port)), "its management address answers")
        edge.send_signal(number)
        assert edge.wait() == Exit.OK

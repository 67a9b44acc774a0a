"""The processes of a mesh on one machine: their arguments, their logs, and who ends with whom."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import gateway
from gateway.core.errors import SetupError
from gateway.local.mesh_record import start_time
from gateway.local.processes import LOG_BYTES, Part, Processes, program

DEADLINE_SECONDS = 30.0


def ended(part: Part) -> str:
    assert part.process is not None
    part.process.wait(DEADLINE_SECONDS)
    return part.log.read_text()


def test_what_is_for_the_beginning_is_said_until_the_part_has_come_up(tmp_path: Path) -> None:
    part = Part("router", ["--version"], tmp_path / "router.log", at_first=["--no-such-option"])
    processes = Processes(tmp_path / "running.json")
    processes.start(part)
    for _ in range(2):
        assert "no-such-option" in ended(part)
        part.log.unlink()
        part.start()
    ended(part)
    part.log.unlink()
    processes.came_up("router")
    part.start()
    assert "no-such-option" not in ended(part)


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.fixture
def deaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Processes, Part]:
    """An edge that runs, and does not hear SIGTERM."""
    monkeypatch.setattr("gateway.local.processes.program", lambda: [sys.executable, "-c", DEAF])
    part = Part("edge", [], tmp_path / "edge.log", end_seconds=60)
    processes = Processes(tmp_path / "running.json")
    processes.start(part)
    while "deaf" not in part.log.read_text():
        time.sleep(0.01)
    return processes, part


def test_one_that_does_not_end_within_the_time_that_is_left_is_killed(deaf: tuple[Processes, Part]) -> None:
    processes, part = deaf
    processes.end_all(0.1)
    assert part.process is not None
    assert part.process.returncode == -signal.SIGKILL


def test_a_leftover_that_had_to_be_killed_has_gone_before_the_next_mesh_looks_for_free_ports(
    deaf: tuple[Processes, Part], monkeypatch: pytest.MonkeyPatch
) -> None:
    processes, part = deaf
    whole = json.loads(processes.record.read_text())
    processes.record.write_text(json.dumps(whole | {"supervisor": os.getppid(), "started": 0}))
    monkeypatch.setattr("gateway.local.processes.END_SECONDS", 0.1)
    assert Processes(processes.record).end_leftovers() == ["edge"]
    assert part.process is not None
    assert start_time(part.process.pid) is None
    assert part.process.wait(DEADLINE_SECONDS) == -signal.SIGKILL


def test_a_log_that_has_grown_begins_anew_and_its_last_part_is_kept(tmp_path: Path) -> None:
    part = Part("edge", [], tmp_path / "edge.log")
    part.log.write_bytes(b"x" * LOG_BYTES)
    part.trim_log()
    assert part.log.stat().st_size == LOG_BYTES
    with part.log.open("ab") as writing:
        writing.write(b"one more")
        writing.flush()
        part.trim_log()
        writing.write(b"after")
    assert part.log.read_bytes() == b"after"
    assert (tmp_path / "edge.log.old").read_bytes().endswith(b"one more")


def test_who_is_refused_because_a_mesh_runs_leaves_its_record_alone(tmp_path: Path) -> None:
    record = tmp_path / "state" / "running.json"
    record.parent.mkdir()
    other = os.getppid()
    written = json.dumps({"supervisor": other, "started": start_time(other), "parts": []})
    record.write_text(written)
    refused = Processes(record)
    with pytest.raises(SetupError, match="a mesh is running"):
        refused.end_leftovers()
    refused.end_all()
    assert record.read_text() == written


def test_who_ends_takes_its_own_record_along(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "running.json")
    processes.start(Part("router", ["--version"], tmp_path / "router.log"))
    assert processes.record.exists()
    processes.end_all()
    assert not processes.record.exists()


def test_its_last_words_are_those_that_say_what_happened_and_not_where(tmp_path: Path) -> None:
    part = Part("kafka", [], tmp_path / "kafka.log")
    assert part.last_words() == ""
    part.log.write_text(
        "starting\n[main] ERROR it failed\nCaused by: X: taken\n\tat a.b.C(D.java:1)\n\t... 18 more\n\n"
    )
    assert part.last_words() == "Caused by: X: taken"


@pytest.mark.parametrize(
    ("line", "words"),
    [('{"level": "error", "message": "kafka is away"}', "kafka is away"), ("[]", "[]"), ("{}", "{}"), ("7", "7")],
)
def test_of_a_log_in_json_its_last_words_are_the_message(tmp_path: Path, line: str, words: str) -> None:
    part = Part("edge", [], tmp_path / "edge.log")
    part.log.write_text(f"{line}\n")
    assert part.last_words() == words


CHILD_OF_OURS = """
import signal, subprocess, sys
from gateway.local.processes import ends_with_parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         preexec_fn=ends_with_parent(signal.SIGKILL))
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_with_its_parent_however_that_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD_OF_OURS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert start_time(child) is not None
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while start_time(child) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert start_time(child) is None


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an install with its script, and with our Python."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "meshgate").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "bin" / "meshgate").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "lib"))
    return tmp_path


def test_the_parts_of_an_installed_mesh_are_found_by_their_name(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "__file__", str(venv / "lib" / "gateway" / "__init__.py"))
    part = Part("edge", ["edge", "-c", str(venv)], venv / "edge.log")
    part.start()
    try:
        assert part.process is not None
        assert part.process.args[:2] == [str(venv / "bin" / "meshgate"), "edge"]  # type: ignore[index]
    finally:
        part.end()


@pytest.mark.usefixtures("venv")
def test_a_checkout_is_not_run_by_the_script_of_an_earlier_install() -> None:
    assert program() == [sys.executable, "-m", "gateway.cli"]


def test_without_a_script_a_part_is_started_by_its_module(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "__file__", str(venv / "lib" / "gateway" / "__init__.py"))
    (venv / "bin" / "meshgate").unlink()
    assert program() == [sys.executable, "-m", "gateway.cli"]

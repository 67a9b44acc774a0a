"""The record of a running mesh, and ending one of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.local.mesh_record import MeshRecord, RecordedProcess, start_time
from gateway.local.processes import Processes

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ignoring", flush=True)
sys.stdin.read()
"""


def test_what_is_noted_stands_in_the_record_beside_the_processes(tmp_path: Path) -> None:
    processes = Processes(tmp_path / "running.json")
    processes.note(config="a.yaml")
    before = MeshRecord.read(processes.record)
    processes.note(ready={"apps": "tcp://127.0.0.1:5042"})
    after = MeshRecord.read(processes.record)
    assert before is not None
    assert after is not None
    assert (before.is_running, before.is_ready) == (True, False)
    assert after.is_ready
    assert after.facts == {"config": "a.yaml", "ready": {"apps": "tcp://127.0.0.1:5042"}}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"supervisor": 1}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "running.json").write_text(text)
    assert MeshRecord.read(tmp_path / "running.json") is None


def test_a_mesh_whose_supervisor_was_killed_is_neither_running_nor_ready(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        started = start_time(child.pid)
    MeshRecord(RecordedProcess("up", child.pid, started), (), {"ready": {}}).write(tmp_path / "running.json")
    record = MeshRecord.read(tmp_path / "running.json")
    assert record is not None
    assert not record.is_running
    assert not record.is_ready


def test_a_process_that_has_its_id_by_now_is_not_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = start_time(other.pid)
        assert started is not None
        assert RecordedProcess("edge", other.pid, started - 1).end()
        assert other.poll() is None
        assert RecordedProcess("edge", other.pid, started).end(30)
    assert other.returncode == -15


def test_who_does_not_end_in_time_is_told_of() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        assert not RecordedProcess("edge", child.pid, start_time(child.pid)).end(0.01)


def test_only_who_lives_has_an_age() -> None:
    age = RecordedProcess("up", os.getpid(), start_time(os.getpid())).age_seconds()
    assert age is not None
    assert 0 <= age < 24 * 3600
    assert RecordedProcess("up", os.getpid(), 1).age_seconds() is None

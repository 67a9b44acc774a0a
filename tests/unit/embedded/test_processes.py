"""The processes of a mesh on one machine: their arguments, their logs, and who ends with whom."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.embedded.processes import LOG_BYTES, Part, Processes, start_time
from gateway.errors import SetupError

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


CHILD_OF_OURS = """
import signal, subprocess, sys
from gateway.embedded.processes import ends_with_parent
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

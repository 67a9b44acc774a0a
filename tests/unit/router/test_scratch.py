"""What Spark leaves behind when it is killed is taken away by whoever starts next."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gateway.embedded.processes import start_time
from gateway.errors import SetupError
from streaming_jobs.scratch import scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_by(pid: int, started: int, namespace: str = "") -> Path:
    mine = scratch_folder()
    folder = mine.with_name(f"{namespace or mine.name.partition('-')[0]}-{pid}-{started}")
    (folder / "blockmgr").mkdir(parents=True)
    (folder / "blockmgr" / "data").write_bytes(b"x")
    return folder


def test_what_is_in_use_stays_and_what_belongs_to_nobody_goes() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = start_time(other.pid)
        assert started is not None
        in_use, of_an_earlier_process = left_by(other.pid, started), left_by(other.pid, started - 1)
        scratch_folder()
        assert in_use.exists()
        assert not of_an_earlier_process.exists()
        other.communicate(b"\n")
    scratch_folder()
    assert not in_use.exists()


def test_what_another_container_uses_stays_though_its_processes_are_not_seen() -> None:
    theirs = left_by(1, 7, namespace="in4026531999")
    scratch_folder()
    assert theirs.exists()


def test_it_is_the_same_folder_for_the_life_of_a_process_and_nobody_else_reads_it(temporary: Path) -> None:
    mine = scratch_folder()
    (mine / "kept").touch()
    assert scratch_folder() == mine
    assert (mine / "kept").exists()
    assert mine.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_made_is_told_with_the_way_out(temporary: Path) -> None:
    (temporary / f"meshgate-spark-{os.getuid()}").write_text("a file")
    with pytest.raises(SetupError) as refused:
        scratch_folder()
    assert "set TMPDIR to another folder" in str(refused.value)

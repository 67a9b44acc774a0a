"""Tests that the next start takes away what Spark leaves behind when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gateway.core.errors import SetupError
from streaming_jobs.spark.scratch import scratch_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


USES_ONE = """
import sys, tempfile
from streaming_jobs.spark.scratch import scratch_folder

tempfile.tempdir = sys.argv[1]
print(scratch_folder(), flush=True)
input()
"""


def filled(folder: Path) -> Path:
    (folder / "blockmgr").mkdir(parents=True)
    (folder / "blockmgr" / "data").write_bytes(b"x")
    return folder


def test_what_is_in_use_stays_and_what_belongs_to_nobody_goes(temporary: Path) -> None:
    of_nobody = filled(scratch_folder().with_name("4000000-of-an-earlier-process"))
    line = [sys.executable, "-c", USES_ONE, str(temporary)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        made = filled(Path(other.stdout.readline().strip()))
        assert not of_nobody.exists()
        in_use = made.rename(made.with_name("4000001-as-its-container-counts"))  # no process has that number here
        scratch_folder()
        assert in_use.exists()
        other.kill()
    scratch_folder()
    assert not in_use.exists()


def test_it_is_the_same_folder_for_the_life_of_a_process_and_nobody_else_reads_it(temporary: Path) -> None:
    mine = scratch_folder()
    (mine / "kept").touch()
    assert scratch_folder() == mine
    assert (mine / "kept").exists()
    assert mine.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_made_is_told_with_the_way_out(temporary: Path) -> None:
    (temporary / f"meshgate-jvm-{os.getuid()}").write_text("a file")
    with pytest.raises(SetupError) as refused:
        scratch_folder()
    assert "set TMPDIR to another folder" in str(refused.value)


def test_a_link_that_somebody_has_left_there_is_not_followed(temporary: Path) -> None:
    home = filled(temporary / "home")
    (temporary / f"meshgate-jvm-{os.getuid()}").symlink_to(home)
    with pytest.raises(SetupError, match="belongs to somebody else"):
        scratch_folder()
    assert (home / "blockmgr" / "data").exists()

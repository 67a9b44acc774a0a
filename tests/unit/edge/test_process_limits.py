"""Tests what an edge asks of the system, each in a process of its own: memory that goes back, and open files."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
from pathlib import Path
from gateway.edge.process_limits import return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

del (_ := [bytearray(4_000_000)])[:]  # from here on glibc would take such blocks from its heap
before, frames, others = resident(), [], []
for number in range(200):
    frames.append(bytearray(b"x") * 900_000)
    others.append(bytes([number]) * 1_000)
frames.clear()
if sys.argv[1] == "returned":
    assert return_freed_memory()
print(resident() - before)
"""


@pytest.mark.parametrize("how", ["returned", "kept"])
def test_frames_that_were_cut_leave_nothing_behind(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, check=True, text=True)
    mebibytes = int(done.stdout)
    assert mebibytes < 20 if how == "returned" else mebibytes > 100


FILES = """
import resource
from gateway.edge.process_limits import OTHER_FILES, allow_many_files, most_connections

resource.setrlimit(resource.RLIMIT_NOFILE, (400, OTHER_FILES + 300))
before = most_connections()
allow_many_files()
print(before, most_connections())
"""


def test_an_edge_has_all_the_files_that_it_may_have_and_keeps_some_for_itself() -> None:
    done = subprocess.run([sys.executable, "-c", FILES], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["200", "300"]

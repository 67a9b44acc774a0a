"""The processes of a run, found by a word in their environment: those that should be there, and those left behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "MESHGATE_CHAOS"


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    command: str

    @property
    def handles(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def marked(mark: str) -> dict[int, Process]:
    """All that were started with this mark, by their ids; zombies are gone already."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    process = _read(folder)
                    found[process.pid] = process
    return found


def _read(folder: Path) -> Process:
    parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return Process(int(folder.name), parent, command)


def below(processes: dict[int, Process], root: int) -> Iterator[Process]:
    """The children of a process, and theirs."""
    for process in processes.values():
        if process.parent == root:
            yield process
            yield from below(processes, process.pid)


def orphans(processes: dict[int, Process], roots: set[int]) -> list[Process]:
    """Those that descend from none of the roots any more."""
    kept = roots | {one.pid for root in roots for one in below(processes, root)}
    return [one for one in processes.values() if one.pid not in kept]

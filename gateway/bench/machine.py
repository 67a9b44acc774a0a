"""Measures the mesh's processes: processor time and memory, by part, read from /proc during the run.

A part is one of the processes that a mesh's `running.json` names, with all that descend from it. The router's are told
apart by their programs: the JVM, the Python workers below it, and the driver that started it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gateway.local.mesh_record import start_time

PROC = Path("/proc")
SAMPLE_SECONDS = 0.5
MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PART_NAMES = {"kafka": "broker"}


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `cpu_seconds` is its own, without its children's."""

    pid: int
    parent: int
    program: str
    cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One sample, by part. `at` is in nanoseconds of the monotonic clock."""

    at: int
    cpu_seconds: Mapping[str, float]
    resident_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one part over a while."""

    cpu_seconds: float
    first_mib: float
    last_mib: float
    most_mib: float


def roots_of(record: Path) -> dict[str, int]:
    """The parts that run, by name, with their process ids; none where there is no record or its mesh has ended."""
    try:
        parts = json.loads(record.read_text())["parts"]
    except (OSError, ValueError, KeyError):
        return {}
    return {
        _PART_NAMES.get(part["name"], part["name"]): part["pid"]
        for part in parts
        if start_time(part["pid"]) == part["started"]
    }


def processes(proc: Path = PROC) -> dict[int, Process]:
    by_pid = {}
    for entry in proc.iterdir():
        if entry.name.isdigit() and (process := _read(entry)) is not None:
            by_pid[process.pid] = process
    return by_pid


def _read(entry: Path) -> Process | None:
    """Returns None if the process has ended meanwhile."""
    try:
        head, _, rest = (entry / "stat").read_text().rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    cpu_seconds = (int(fields[11]) + int(fields[12])) / _TICKS
    return Process(int(entry.name), int(fields[1]), head.partition("(")[2], cpu_seconds, int(fields[21]) * _PAGE_BYTES)


def parts_of(roots: Mapping[str, int], running: Mapping[int, Process]) -> dict[str, list[Process]]:
    """Returns the processes of each part.

    >>> tree = [(1, 0, "python"), (2, 1, "java"), (3, 2, "python"), (4, 3, "python"), (9, 0, "sh")]
    >>> found = parts_of({"router": 1}, {pid: Process(pid, parent, name, 0.0, 0) for pid, parent, name in tree})
    >>> {part: [one.pid for one in of] for part, of in found.items()}
    {'driver': [1], 'jvm': [2], 'python': [3, 4]}
    """
    children: dict[int, list[Process]] = {}
    for process in running.values():
        children.setdefault(process.parent, []).append(process)
    by_part: dict[str, list[Process]] = {}
    for name, pid in roots.items():
        if pid in running:
            for part, process in _descend(name, running[pid], children):
                by_part.setdefault(part, []).append(process)
    return by_part


def _descend(name: str, process: Process, children: Mapping[int, list[Process]]) -> Iterable[tuple[str, Process]]:
    part = _router_part(name, process)
    yield part, process
    for below in children.get(process.pid, ()):
        yield from _descend("python" if part == "jvm" else name, below, children)


def _router_part(name: str, process: Process) -> str:
    if name != "router":
        return name
    return "jvm" if process.program == "java" else "driver"


@dataclass(slots=True)
class Watch:
    """Takes samples in a thread of its own from `start` to `stop`.

    What a process had used when it was last seen is kept when it ends, so that a worker that was replaced still counts.
    """

    roots: Mapping[str, int]
    samples: list[ProcessSample] = field(default_factory=list)
    _ended: dict[str, float] = field(default_factory=dict)
    _cpu_seen: dict[int, tuple[str, float]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        if self.roots:
            self.take()
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self.take()

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.take()

    def take(self) -> None:
        self.add(time.monotonic_ns(), parts_of(self.roots, processes()))

    def add(self, at: int, parts: Mapping[str, Iterable[Process]]) -> None:
        alive = {process.pid: (part, process) for part, members in parts.items() for process in members}
        for pid, (part, cpu_seconds) in list(self._cpu_seen.items()):
            if pid not in alive:
                self._ended[part] = self._ended.get(part, 0.0) + cpu_seconds
                del self._cpu_seen[pid]
        cpu, resident = dict(self._ended), dict.fromkeys(self._ended, 0)
        for pid, (part, process) in alive.items():
            self._cpu_seen[pid] = part, process.cpu_seconds
            cpu[part] = cpu.get(part, 0.0) + process.cpu_seconds
            resident[part] = resident.get(part, 0) + process.resident_bytes
        self.samples.append(ProcessSample(at, cpu, resident))

    def usage(self, begin: int, end: int) -> dict[str, Usage]:
        """Returns the usage between two times, by part. Between two samples processor time counts as evenly spent."""
        times = [sample.at for sample in self.samples]
        names = sorted({name for sample in self.samples for name in sample.cpu_seconds})
        return {name: self._usage_of(name, times, begin, end) for name in names}

    def _usage_of(self, name: str, times: list[int], begin: int, end: int) -> Usage:
        cpu = [sample.cpu_seconds.get(name, 0.0) for sample in self.samples]
        first, last = np.interp([begin, end], times, cpu)
        resident = [sample.resident_bytes.get(name, 0) / MIB for sample in self.samples if begin <= sample.at <= end]
        resident = resident or [0.0]
        return Usage(float(last - first), resident[0], resident[-1], max(resident))

"""The record of a running mesh: which supervisor runs in a state folder, and which processes it keeps.

A process is named by its id and its start time, so that a process that merely has the same id by now is never touched.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE_NAME = "running.json"
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def start_time(pid: int) -> int | None:
    """Returns when a process started, in clock ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """A process as the record names it. `started` is in clock ticks since boot."""

    name: str
    pid: int
    started: int | None

    @property
    def is_alive(self) -> bool:
        return self.started is not None and start_time(self.pid) == self.started

    def age_seconds(self) -> float | None:
        """Returns how long the process has been running; None if it is gone."""
        if self.started is None or not self.is_alive:
            return None
        up = float(Path("/proc/uptime").read_text().split()[0])
        return max(0.0, up - self.started / _TICKS_PER_SECOND)

    def end(self, timeout_seconds: float | None = None, number: signal.Signals = signal.SIGTERM) -> bool:
        """Sends the signal and waits; returns whether the process has ended within the time.

        The descriptor stands for this very process, even if another one gets its id meanwhile.
        """
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive:
                return True
            signal.pidfd_send_signal(descriptor, number)
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            return bool(waiting.poll(None if timeout_seconds is None else timeout_seconds * 1000))
        except ProcessLookupError:
            return True
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class MeshRecord:
    """The record that a supervisor has written about its mesh.

    `facts` is what it knows beside its processes: `config`, `management` (address of each part that has one), and
    `ready` (the listeners' addresses), which is there once a probe has gone through the whole path.
    """

    supervisor: RecordedProcess
    parts: tuple[RecordedProcess, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> MeshRecord | None:
        """Returns None where there is no record that can be read."""
        try:
            whole = json.loads(path.read_text())
            return cls(
                RecordedProcess("up", whole.pop("supervisor"), whole.pop("started")),
                tuple(RecordedProcess(part["name"], part["pid"], part["started"]) for part in whole.pop("parts")),
                whole,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        whole = {
            **self.facts,
            "supervisor": self.supervisor.pid,
            "started": self.supervisor.started,
            "parts": [{"name": part.name, "pid": part.pid, "started": part.started} for part in self.parts],
        }
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(whole))
        temporary.replace(path)

    @property
    def is_running(self) -> bool:
        return self.supervisor.is_alive

    @property
    def is_ready(self) -> bool:
        return self.is_running and "ready" in self.facts

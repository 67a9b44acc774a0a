"""Processes that one mesh is made of: started, watched, started again when they die, ended in order.

What runs is written into the state folder with each process's start time, so that the next start can find what a killed
supervisor has left behind, and never touches a process that merely has the same number by now.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gateway
from gateway.core.errors import SetupError
from gateway.local.java import optimise_with_what_is_left
from gateway.local.mesh_record import MeshRecord, RecordedProcess, start_time

BACK_OFF_SECONDS = (0.0, 1.0, 2.0, 5.0)
"""At once the first time, then slower; from the beginning again after a process has lived for `STEADY_SECONDS`. Not
slower still: the mesh waits for it, and whatever it failed for may be over."""
STEADY_SECONDS = 30.0
END_SECONDS = 10.0
"""The time for a process that was asked to end and whose work has no limit of its own; then it is killed."""
LOG_BYTES = 16 * 2**20
"""The most bytes of a part's log; as much again is kept of what was before."""
_PR_SET_PDEATHSIG = 1


WORDS = 500
"""Characters of what a part said at last."""
_TRACE = re.compile(r"\t|\s*(at |\.\.\. \d+ )")


def what_happened(text: str) -> str:
    """Returns the last line that says what happened. Below it Java writes where.

    >>> what_happened("starting\\nCaused by: X: no such host\\n\\tat a.b(C.java:1)\\n\\t... 18 more\\n")
    'Caused by: X: no such host'
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return next((_message(line.strip()) for line in reversed(lines) if not _TRACE.match(line)), "")


def _message(line: str) -> str:
    """Returns the message in a line of a log in JSON."""
    try:
        return str(json.loads(line)["message"])
    except (ValueError, TypeError, KeyError):
        return line


def program() -> list[str]:
    """`meshgate edge` is what people look for among processes. But the script of an earlier install beside a checkout
    would run that install's code."""
    script, installed = Path(sys.executable).with_name("meshgate"), Path(sysconfig.get_path("purelib"))
    if script.is_file() and Path(gateway.__file__).resolve().is_relative_to(installed.resolve()):
        return [str(script)]
    return [sys.executable, "-m", "gateway.cli"]


def trim_log(log: Path) -> None:
    """Trims the log. The process goes on writing at its new end; a line written in between may be lost."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.old"))
            os.truncate(log, 0)


@dataclass(slots=True)
class Part:
    """One process. `end_seconds` bounds its orderly end. `at_first` are more arguments until it is up.
    `becomes_java`: the process goes on as a JVM."""

    name: str
    arguments: Sequence[str]
    log: Path
    end_seconds: float = END_SECONDS
    at_first: Sequence[str] = ()
    becomes_java: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    deaths: int = 0
    start_again_at: float = 0.0

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [*program(), *self.arguments, *self.at_first],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,  # Ctrl-C in the terminal is for us; we end them in order
                preexec_fn=ends_with_parent(signal.SIGTERM),
            )
        self.started_at = time.monotonic()
        if self.becomes_java:
            optimise_with_what_is_left(self.process.pid)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def trim_log(self) -> None:
        trim_log(self.log)

    def last_words(self) -> str:
        """Returns the last lines of its log, which most likely say why it ended."""
        try:
            return what_happened(self.log.read_text(errors="replace"))[:WORDS]
        except OSError:
            return ""

    def end(self, most_seconds: float = math.inf) -> None:
        """Ends it in order; kills it after its own time for that, or after `most_seconds`."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(min(self.end_seconds, most_seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Processes:
    """Runs the processes of a mesh. `record` is the file that says what runs."""

    record: Path
    parts: list[Part] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def start(self, part: Part) -> None:
        self.parts.append(part)
        part.start()
        self._write()

    def restart_dead(self) -> list[Part]:
        """Starts again what has died and may; the parts that were found dead now."""
        died = []
        now = time.monotonic()
        for part in self.parts:
            if part.is_running:
                continue
            if part.process is not None:  # found dead just now
                died.append(part)
                part.deaths = 0 if now - part.started_at > STEADY_SECONDS else part.deaths
                part.start_again_at = now + BACK_OFF_SECONDS[min(part.deaths, len(BACK_OFF_SECONDS) - 1)]
                part.deaths += 1
                part.process = None
            if now >= part.start_again_at:
                part.start()
                self._write()
        return died

    def came_up(self, name: str) -> None:
        for part in self.parts:
            if part.name == name:
                part.at_first = ()

    def end_all(self, most_seconds: float = math.inf) -> None:
        """Ends all processes in the reverse order of their start: a part that depends on another goes first."""
        for part in reversed(self.parts):
            part.end(most_seconds)
        record = MeshRecord.read(self.record)  # another supervisor's, if its mesh was found alive
        if record is not None and record.supervisor.pid == os.getpid():
            self.record.unlink(missing_ok=True)

    def note(self, **facts: object) -> None:
        """Adds to what the record says of the mesh beside its processes."""
        self.facts |= facts
        self._write()

    def _write(self) -> None:
        running = tuple(
            RecordedProcess(part.name, part.process.pid, start_time(part.process.pid))
            for part in self.parts
            if part.process is not None
        )
        supervisor = RecordedProcess("up", os.getpid(), start_time(os.getpid()))
        MeshRecord(supervisor, running, self.facts).write(self.record)

    def end_leftovers(self) -> list[str]:
        """Ends what an earlier supervisor left running; names of what there was. Refuses while that one lives."""
        record = MeshRecord.read(self.record)
        if record is None:
            return []
        refuse_running(record, self.record)
        leftovers = [part for part in record.parts if part.is_alive]
        for part in leftovers:
            _end(part)
        self.record.unlink(missing_ok=True)
        return [part.name for part in leftovers]


def refuse_running(record: MeshRecord | None, path: Path) -> None:
    """Raises SetupError where the record at `path` is of a mesh that runs."""
    if record is not None and record.is_running:
        raise SetupError(f"a mesh is running in {path.parent.parent} already (process {record.supervisor.pid})")


def _end(process: RecordedProcess) -> None:
    if not process.end(END_SECONDS):
        process.end(END_SECONDS, signal.SIGKILL)  # and wait: until it has gone it holds its ports


def ends_with_parent(number: signal.Signals) -> Callable[[], None]:
    """Returns a function that a new child calls, so that the kernel ends it together with its parent.

    The kernel sends the signal when the thread that started the child ends, however that comes about.
    """
    prctl = ctypes.CDLL(None).prctl  # found before the fork: afterwards nothing may be loaded

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, number)

    return ask

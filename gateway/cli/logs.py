"""`meshgate logs`: what the parts of the mesh on this machine have logged, merged by time."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import click

from gateway.cli.console import CommandError, Output, printable, show_line
from gateway.cli.local_mesh import MeshFolder
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, dir_option

LINES = 100
FOLLOW_SECONDS = 0.2
_TIME = re.compile(r'(?:\{"time": ")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)')
"""Every part writes UTC to the millisecond at the beginning of a line, as text and as JSON."""


@click.command("logs")
@click.argument("parts", metavar="[PART]...", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Then show new lines as they are logged, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=Whole(min=0),
    default=LINES,
    show_default=True,
    help="How many of each part's last lines to show.",
)
@common_options
@dir_option
def command(
    config_file: str | None, state_dir: Path | None, parts: tuple[str, ...], follow: bool, lines: int, output: Output
) -> None:
    """Show what the parts of the mesh on this machine have logged: kafka, edge, router, rules, and up itself.

    PART is one of them; without any, the logs of all are merged by time, each line after the name of its part. A line
    without a time of its own stays below the one before it. The logs stay after the mesh has ended. With --output json
    each line is a JSON document with `part`, `line`, and `time` (null before a part's first).
    """
    logs = _select_groups(MeshFolder(config_file, state_dir).logs, parts)
    width = max(map(len, logs)) if len(logs) != 1 else 0
    tails = [PartLog(part, LogTail(path)) for part, path in logs.items()]

    def show(lines: Iterable[TimedLine]) -> None:
        for at in lines:
            prefix = f"{at.part:<{width}} | " if width else ""
            event_fields = {"part": at.part, "line": at.line, "time": at.time or None}
            show_line(event_fields, output, prefix + printable(at.line))

    show(merged(tails, lambda tail: tail.last_lines(lines)))
    while follow:
        show(merged(tails, PartLog.new_lines))
        time.sleep(FOLLOW_SECONDS)


def _select_groups(folder: Path, parts: tuple[str, ...]) -> dict[str, Path]:
    """Returns the logs of the parts that are named, or all there are."""
    logs = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not logs:
        raise CommandError(f"there are no logs in {folder}: has a mesh been up there?")
    if missing := [part for part in parts if part not in logs]:
        raise CommandError(f"there is no log of {missing[0]} in {folder}: expected {', '.join(logs)}")
    return {part: logs[part] for part in parts} if parts else logs


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line of a part's log. `time` is as it is written there, which sorts as text; empty where none came yet."""

    time: str
    part: str
    line: str


class PartLog:
    """Gives each line of a part's log a time: its own, or that of the line before it."""

    def __init__(self, part: str, tail: LogTail) -> None:
        self._part = part
        self._tail = tail
        self._time = ""

    def last_lines(self, count: int) -> list[TimedLine]:
        return list(deque(self.new_lines(), maxlen=count))

    def new_lines(self) -> Iterator[TimedLine]:
        for line in self._tail.new_lines():
            if stamp := _TIME.match(line):
                self._time = max(self._time, stamp[1])  # a part's own lines keep their order
            yield TimedLine(self._time, self._part, line)


def merged(tails: Iterable[PartLog], read: Callable[[PartLog], Iterable[TimedLine]]) -> list[TimedLine]:
    """Returns what `read` gives of each part, in the order of time."""
    return sorted((line for tail in tails for line in read(tail)), key=attrgetter("time"))


class LogTail:
    """Reads the end of a log, and then what is added to it. A log that was cut is read from its new beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial_line = b""

    def new_lines(self) -> Iterator[str]:
        """Yields the lines completed since the last call; the beginning of an incomplete one is kept."""
        try:
            with self._path.open("rb") as log:
                if self._path.stat().st_size < self._offset:
                    self._offset, self._partial_line = 0, b""
                log.seek(self._offset)
                added = log.read()
        except FileNotFoundError:
            return
        self._offset += len(added)
        *lines, self._partial_line = (self._partial_line + added).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")

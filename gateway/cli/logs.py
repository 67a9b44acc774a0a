"""`meshgate logs`: what the parts of the mesh on this machine have logged."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click

from gateway.cli.console import CommandError, Output, printable, show_line
from gateway.cli.local_mesh import MeshFolder
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, dir_option

LINES = 100
FOLLOW_SECONDS = 0.2


@click.command("logs")
@click.argument("parts", metavar="[PART]...", nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is logged from now on, until Ctrl-C.")
@click.option("-n", "--lines", type=Whole(min=0), default=LINES, show_default=True, help="Of each part's last lines.")
@common_options
@dir_option
def command(
    config_file: str | None, state_dir: Path | None, parts: tuple[str, ...], follow: bool, lines: int, output: Output
) -> None:
    """Show what the parts of the mesh on this machine have logged: kafka, edge, router, rules, and up itself.

    PART is one of them; without any, all are shown, each line after the name of its part. The logs stay after the mesh
    has ended. With --output json each line is a JSON document with `part` and `line`.
    """
    logs = _select_groups(MeshFolder(config_file, state_dir).logs, parts)
    width = max(map(len, logs)) if len(logs) != 1 else 0
    tails = {part: LogTail(path) for part, path in logs.items()}

    def show(part: str, line: str) -> None:
        prefix = f"{part:<{width}} | " if width else ""
        show_line({"part": part, "line": line}, output, prefix + printable(line))

    for part, tail in tails.items():
        for line in tail.last_lines(lines):
            show(part, line)
    while follow:
        for part, tail in tails.items():
            for line in tail.new_lines():
                show(part, line)
        time.sleep(FOLLOW_SECONDS)


def _select_groups(folder: Path, parts: tuple[str, ...]) -> dict[str, Path]:
    """Returns the logs of the parts that are named, or all there are."""
    found = {path.stem: path for path in sorted(folder.glob("*.log"))}
    if not found:
        raise CommandError(f"there are no logs in {folder}: has a mesh been up there?")
    if missing := [part for part in parts if part not in found]:
        raise CommandError(f"there is no log of {missing[0]} in {folder}: expected {', '.join(found)}")
    return {part: found[part] for part in parts} if parts else found


class LogTail:
    """Reads the end of a log, and then what is added to it. A log that was cut is read from its new beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def last_lines(self, count: int) -> list[str]:
        return list(deque(self.new_lines(), maxlen=count))

    def new_lines(self) -> Iterator[str]:
        """Yields the lines completed since the last call; the beginning of an incomplete one is kept."""
        try:
            with self._path.open("rb") as log:
                if self._path.stat().st_size < self._offset:
                    self._offset, self._rest = 0, b""
                log.seek(self._offset)
                added = log.read()
        except FileNotFoundError:
            return
        self._offset += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")

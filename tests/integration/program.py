"""A program that runs beside a test and writes what it says to a file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_program(command: list[str], log: Path, end_seconds: float | None = None) -> Iterator[None]:
    """`end_seconds`: how long it may take to end when it is told to, if there is a limit."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=end_seconds)

"""Verbs that go on running beside a test, as an operator has them open in another terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Thread
from typing import IO

from tests.integration.mesh import TestMesh

LINE_SECONDS = 120.0


@contextmanager
def running_verb(mesh: TestMesh, verb: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Starts the verb with pipes for its output and its notes; it ends with the test."""
    line = [sys.executable, "-u", "-m", "gateway.cli", verb, "-c", str(mesh.config_file), *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def note_of(process: subprocess.Popen[str]) -> str:
    """The next line that it tells people."""
    return _line(process.stderr)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line of its output."""
    return _line(process.stdout)


def _line(pipe: IO[str] | None) -> str:
    """Ends with the verb, or when the time is up: a thread is left behind then, until the verb is ended."""
    assert pipe is not None
    read: Queue[str] = Queue()
    Thread(target=lambda: read.put(pipe.readline()), daemon=True).start()
    return read.get(timeout=LINE_SECONDS)

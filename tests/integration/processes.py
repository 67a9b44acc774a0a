"""Holds processes still beside a test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.mesh import wait_until


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process while this is entered. Its threads stop some time after the signal: all have when this yields."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: _states(pid) == {"T"}, "every thread of the process stands still")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> set[str]:
    """Returns the states of a process's threads, as `ps` writes them."""
    stats = (thread.read_text() for thread in Path(f"/proc/{pid}/task").glob("*/stat"))
    return {stat.rpartition(")")[2].split()[0] for stat in stats}

"""Keeps a lane's worker before its first record until its router may route (see `hand_over`).

A gate is a file of the router's own: empty while it is closed, a number once it is open. Without the file nothing
passes.
"""

from __future__ import annotations

import time
from pathlib import Path

LOOK_SECONDS = 0.01
"""The interval at which a worker looks whether its gate is open: it is part of every hand-over."""


class Gate:
    """A lane's gate. It travels to the lane's worker, which is on the same machine.

    Args:
        reads_again: what the worker has read before the gate opens is not enough, because lanes are added.
    """

    def __init__(self, path: Path, *, reads_again: bool = False) -> None:
        self.reads_again = reads_again
        self._path = path
        self._arrived = path.with_suffix(".arrived")
        path.touch()

    def open(self, outputs_from: int) -> None:
        """Lets the worker route. Outputs of records before this offset are left out: they have been written."""
        fresh = self._path.with_suffix(".new")
        fresh.write_text(str(outputs_from))
        fresh.replace(self._path)

    def has_worker(self) -> bool:
        """True once the worker stands before its first record."""
        return self._arrived.exists()

    def wait(self) -> int:
        """Waits in the worker until the gate is open. Returns the offset from which on there are outputs to write."""
        self._arrived.touch()
        while not (outputs_from := self._path.read_text()):
            time.sleep(LOOK_SECONDS)
        return int(outputs_from)

"""The processes of one contender: started one by one, known by their ids, and ended by these alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

END_SECONDS = 15.0


class Running:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **(environment or {})},
                process_group=0,
            )

    @property
    def roots(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    def dead(self) -> str | None:
        """One that has ended by itself, with its last words."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = (self._folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
                return f"{name} ended with code {process.returncode}: {log[-1][:300] if log else ''}"
        return None

    def stop(self) -> None:
        """The last one started first: who depends on another goes before it."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

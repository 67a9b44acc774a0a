"""Finds the contenders' programs: in a cache folder of their own, never in Meshgate's environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MESHGATE_BENCH_TOOLS"


@dataclass(frozen=True)
class Tools:
    folder: Path

    @classmethod
    def find(cls) -> Tools:
        """`$MESHGATE_BENCH_TOOLS`, else beside the user's other caches."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(Path(os.environ.get(VARIABLE) or cache / "meshgate-bench"))

    @property
    def environment(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def nats_server(self) -> Path:
        return self.environment / "bin" / "nats-server"

    @property
    def bento(self) -> Path:
        return self.folder / "bin" / "bento"

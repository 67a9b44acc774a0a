"""The wall clocks of parts, which can be set while they run. Monotonic ones go on, as on a machine that is set right.

By a library that is preloaded, for a kernel's time namespaces leave the wall clock alone. Of libfaketime Python's sleep
fails when the monotonic clock is to be left alone.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("wall_clock.c")


class WallClock:
    """Of what is started with `environment`, and of all that this starts. Needs a C compiler."""

    def __init__(self, folder: Path, name: str) -> None:
        self._library = folder / "wall_clock.so"
        self._file = folder / f"{name}.clock"
        if not self._library.exists():
            subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", self._library, SOURCE, "-ldl"], check=True)
        self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)

    def set(self, ahead_seconds: int) -> None:
        """Sets the clock relative to the true time, at once."""
        self._page[:] = struct.pack("=q", ahead_seconds)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "MESHGATE_CHAOS_CLOCK": str(self._file)}

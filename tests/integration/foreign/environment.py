"""The foreign hsp peer as a process, in an environment that is made once for this user."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO

from gateway.local.jars import cache_folder

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
SECONDS = 30.0


def foreign_python() -> Path:
    """Installs from the registry where it was not done before; the folder's name is that of what is in it."""
    pins = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache_folder() / f"foreign-hsp-{pins}"
    python = folder / "bin" / "python"
    if not folder.exists():
        fresh = folder.with_suffix(f".{os.getpid()}")
        venv.create(fresh, with_pip=True)
        install = [str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", str(REQUIREMENTS)], check=True, timeout=300)
        try:
            fresh.rename(folder)
        except OSError:  # another run was quicker
            shutil.rmtree(fresh)
    return python


@dataclass
class ForeignPeer:
    """Obeys and tells by lines; see `hsp_peer.py` for which."""

    process: subprocess.Popen[str]
    said: Queue[str] = field(default_factory=Queue)

    def __post_init__(self) -> None:
        Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, stdout: IO[str]) -> None:
        for line in stdout:
            self.said.put(line.strip())

    def do(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hears(self, seconds: float = SECONDS) -> str:
        try:
            return self.said.get(timeout=seconds)
        except Empty:
            raise AssertionError(f"the foreign peer said nothing in {seconds:g} s") from None

    def hears_until(self, line: str) -> None:
        while self.hears() != line:
            pass

    def asks(self, name: str, type_: int, body: bytes) -> str:
        """Returns what its DATA_ACK is answered with."""
        self.do("ask", name, type_, body.hex() or "-")
        return self.hears()


@contextmanager
def foreign_peer(python: Path, mode: str, address: str) -> Iterator[ForeignPeer]:
    """`mode`: `connect` or `listen`."""
    command = [str(python), "-u", "-W", "ignore", str(HERE / "hsp_peer.py"), mode, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ForeignPeer(process)
        finally:
            process.kill()

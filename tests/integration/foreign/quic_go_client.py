"""quic-go as a client of emm over QUIC: built once for this user, from its Go module.

A machine without Go has no such client, and its tests are skipped with that reason. Where Go is there and the build
fails, a run of CI (`CI` is set) fails too.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.local.jars import cache_folder
from tests.go_modules import kindly
from tests.unit.edge.certificates import Authority

SOURCE = Path(__file__).with_name("quic_go")
SECONDS = 30.0


@dataclass(frozen=True)
class QuicGo:
    program: Path
    authority: Authority

    def answer_to(self, packet: bytes, port: int) -> bytes:
        """Returns the first packet that comes back on a new connection that begins with this one."""
        signed = self.authority.signs("sensor")
        files = str(self.authority.ca), signed["cert"], signed["key"]
        command = [str(self.program), f"127.0.0.1:{port}", *files, packet.hex()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return bytes.fromhex(done.stdout)


def built_quic_go() -> Path:
    if shutil.which("go") is None:
        pytest.skip("quic-go needs Go to be built, and there is none on this machine")
    sources = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    program = cache_folder() / f"quic-go-{hashlib.sha256(sources).hexdigest()[:12]}"
    if not program.exists():
        fresh = program.with_suffix(f".{os.getpid()}")
        try:
            kindly("go", "build", "-o", str(fresh), ".", folder=SOURCE)
        except subprocess.CalledProcessError as failed:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"quic-go could not be built: {failed}")
        fresh.rename(program)
    return program

"""More edges for a mesh: processes of their own, with their own ids and ports, on the same Kafka."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gateway.config.kafka import EMBEDDED
from tests.integration.mesh import TestMesh, free_port, wait_until

START_SECONDS = 60.0


@dataclass
class MoreEdge:
    """`ports` by listener. Names and settings of those are the mesh's own: the router knows a listener by its name."""

    mesh: TestMesh
    id: str
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def config_file(self) -> Path:
        return self.mesh.folder / f"{self.id}.yaml"

    @property
    def log(self) -> Path:
        return self.mesh.folder / "state" / "logs" / f"{self.id}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def configure(self, **more: Any) -> None:
        """`more` goes over the mesh's own configuration."""
        config = yaml.safe_load(self.mesh.config_file.read_text())
        for listener in config["listeners"]:
            scheme = listener["listen"].partition("://")[0]
            kind = socket.SOCK_DGRAM if scheme in ("udp", "quic") else socket.SOCK_STREAM
            port = self.ports[listener["name"]] = free_port(kind)
            listener["listen"] = f"{scheme}://127.0.0.1:{port}"
        self.ports["edge"] = free_port()
        config["edge"] = {**config["edge"], "id": self.id, "management": f"127.0.0.1:{self.ports['edge']}"}
        if config["kafka"]["bootstrap"] == EMBEDDED:
            config["kafka"] |= {"bootstrap": f"127.0.0.1:{self.mesh.ports['kafka']}", "replication": 1}
        config["peers"] = []
        self.config_file.write_text(yaml.safe_dump(config | more, sort_keys=False))

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            command = [sys.executable, "-m", "gateway.cli", "edge", "-c", str(self.config_file), "-v"]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def wait(self, seconds: float = START_SECONDS) -> None:
        wait_until(self.is_ready, f"{self.id} is ready; {self.last_words()}", seconds)

    def is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.ports['edge']}/healthz/ready"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.stop()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-1000:] if self.log.exists() else ""


@contextmanager
def more_edges(mesh: TestMesh, *names: str, **settings: Any) -> Iterator[list[MoreEdge]]:
    """Started together, for each takes its time; they are ready when this is entered. `settings` go over the mesh's."""
    edges = [MoreEdge(mesh, name) for name in names]
    try:
        for edge in edges:
            edge.configure(**settings)
            edge.start()
        for edge in edges:
            edge.wait()
        yield edges
    finally:
        for edge in edges:
            edge.end()

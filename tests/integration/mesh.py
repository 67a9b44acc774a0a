"""A whole mesh for tests: `meshgate up` as a user starts it, on free ports, in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

import yaml

START_SECONDS = 400.0  # on a machine that has to fetch the jars first, beside other work
Settings = dict[str, object]


PORTS = range(15_000, 32_000)
"""Below those that the system gives to outgoing connections: one of them could have a port before its server has."""
_chance = SystemRandom()  # pytest-randomly begins the other one anew with each test
_given: set[int] = set()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Returns a port that nobody has, and that was not given before: whoever asked may not have it yet."""
    while True:
        port = _chance.choice(PORTS)
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def wait_until(condition: object, what: str, seconds: float = 30.0) -> None:
    """Calls `condition` until it is true; fails with `what` when the time is up."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


@dataclass
class TestMesh:
    """`ports` by listener name. `settings` go over the defaults of the configuration. `tree`: the source tree that its
    processes run, where it is not this one."""

    __test__ = False
    folder: Path
    settings: Settings = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    tree: Path | None = None

    @property
    def config_file(self) -> Path:
        return self.folder / "meshgate.yaml"

    @property
    def keys_file(self) -> Path:
        return self.folder / "keys.yaml"

    def configure(self, listeners: list[dict[str, object]]) -> None:
        """Each listener with `scheme`, and a free port of its own."""
        placed = []
        for listener in listeners:
            scheme = str(listener.pop("scheme", "tcp"))
            kind = socket.SOCK_DGRAM if scheme in ("udp", "quic") else socket.SOCK_STREAM
            port = self.ports[str(listener["name"])] = free_port(kind)
            placed.append({**listener, "listen": f"{scheme}://127.0.0.1:{port}"})
        kafka = free_port()
        self.ports |= {"kafka": kafka, "edge": free_port(), "router": free_port()}
        config: Settings = {
            "mesh": "test",
            "kafka": {"bootstrap": "embedded", "listen": f"127.0.0.1:{kafka}", "partitions": 2},
            "edge": {"id": "edge-0", "management": f"127.0.0.1:{self.ports['edge']}"},
            "router": {"management": f"127.0.0.1:{self.ports['router']}"},
            "listeners": placed,
        }
        for name, value in self.settings.items():
            mine = config.get(name)
            config[name] = {**mine, **value} if isinstance(mine, dict) and isinstance(value, dict) else value
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(yaml.safe_dump(config, sort_keys=False))

    def start(self, *options: str) -> None:
        command = [sys.executable, "-m", "gateway.cli", "up", "-c", str(self.config_file), *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.tree
        )
        os.set_blocking(self.process.stdout.fileno(), False)  # type: ignore[union-attr]
        said: list[str] = []
        deadline = time.monotonic() + START_SECONDS
        while not any(line.startswith("ready") for line in said):
            with contextlib.suppress(BlockingIOError, TypeError):
                said += self.process.stdout.read().splitlines()  # type: ignore[union-attr]
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the mesh did not come up:\n" + "\n".join(said) + self.logs())
            time.sleep(0.05)

    def logs(self) -> str:
        parts = sorted((self.folder / "state" / "logs").glob("*.log"))
        return "".join(f"\n--- {part.name}\n{part.read_text(errors='replace')[-3000:]}" for part in parts)

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()  # type: ignore[union-attr]
        return code

    def command(
        self, *arguments: str, text: str | None = None, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A verb of the command line against this mesh."""
        line = self._line(*arguments)
        return subprocess.run(
            line, input=text, capture_output=True, text=True, timeout=seconds, check=False, cwd=self.tree
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """One that goes on beside the test."""
        return subprocess.Popen(self._line(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _line(self, verb: str, *others: str) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", verb, "-c", str(self.config_file), *others]

    def metrics(self, part: str) -> dict[str, float]:
        """Samples by name and labels, as they stand in the exposition."""
        url = f"http://127.0.0.1:{self.ports[part]}/metrics"
        with urllib.request.urlopen(url, timeout=5) as response:
            lines = response.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def has_warm_standby(self) -> bool:
        try:
            return self.metrics("router")['meshgate_router_standby{mesh="test",state="warm"}'] == 1
        except OSError:  # nobody answers while one router goes and the other comes
            return False

    def pid_of(self, part: str) -> int:
        running = yaml.safe_load((self.folder / "state" / "running.json").read_text())
        return int(next(one["pid"] for one in running["parts"] if one["name"] == part))


@contextlib.contextmanager
def running_mesh(
    folder: Path, listeners: list[dict[str, object]], settings: Settings | None = None
) -> Iterator[TestMesh]:
    mesh = TestMesh(folder, settings or {})
    mesh.configure(listeners)
    mesh.start()
    try:
        yield mesh
    finally:
        mesh.stop()
        shutil.rmtree(folder / "state" / "kafka", ignore_errors=True)

"""A real broker and a real edge on free ports, and what both cost while something is sent to them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.mesh import free_port

START_SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Rig:
    """`at`: the port of each listener. `edge` and `broker`: process ids. `kafka`: the broker's port."""

    at: dict[str, int]
    management: int
    edge: int
    broker: int
    kafka: int

    def count(self, name: str) -> float:
        """The sum of a counter over all labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.management}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"meshgate_{name}{{"))


@contextlib.contextmanager
def rig(*listeners: dict[str, Any], **settings: Any) -> Iterator[Rig]:
    """`listeners`: as in a configuration, with `scheme` instead of `listen`."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        file = Path(folder) / "meshgate.yaml"
        kafka, management, at = free_port(), free_port(), {}
        placed = []
        for one in listeners:
            scheme = one.pop("scheme", "tcp")
            kind = socket.SOCK_DGRAM if scheme == "udp" else socket.SOCK_STREAM
            port = at[one["name"]] = free_port(kind)
            placed.append({**one, "listen": f"{scheme}://127.0.0.1:{port}"})
        config = {"mesh": "bench", "kafka": {"listen": f"127.0.0.1:{kafka}", "partitions": 2}, "listeners": placed}
        config |= {"edge": {"management": f"127.0.0.1:{management}"}, **settings}
        file.write_text(yaml.safe_dump(config))
        pids = [ends.enter_context(part(name, file)) for name in ("kafka", "edge")]
        made = Rig(at, management, pids[1], pids[0], kafka)
        try:
            wait(lambda: is_ready(management))
        except TimeoutError:
            print("\n".join(log.read_text(errors="replace")[-2_000:] for log in Path(folder).glob("*.log")))
            raise
        yield made


@contextlib.contextmanager
def part(name: str, file: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "gateway.cli", name, "-c", str(file)]
    log = file.with_suffix(f".{name}.log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        log.close()


def is_ready(management: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{management}/healthz/ready", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def wait(condition: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.05)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS

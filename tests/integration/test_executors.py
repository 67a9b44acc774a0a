"""The router on a standalone Spark cluster of two workers: each message passes once, whatever is lost under load.

A frame that passes is an event. After a crash the router puts out again what it had not committed, under the same event
ids, and the edge drops it by position. A message id that stood under two event ids would be a repeat that passed.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.config import load
from gateway.edge.datagrams.open_socket import kernel_drops
from gateway.records import event_records
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.standalone import Standalone, standalone
from tests.integration.threads import running_threads
from tests.integration.topic import every_record

pytestmark = pytest.mark.timeout(600)

DEVICES, PAUSE_SECONDS, REPEATED = 4, 0.04, 0.2
SLOTS = 3
"""Two lanes and one to spare on each worker, so that one worker can do without the other."""
RECEIVE_BUFFER_BYTES = 4 * 2**20
"""Some thousand packets: all that was sent while nothing was routed comes at once. The usual one holds 270."""
BACK_SECONDS, SILENT_SECONDS = 180.0, 20
"""The limits on a machine that is busy with other things."""


@dataclass
class Load:
    """Devices that send packets, and some of these again; and one that listens."""

    mesh: TestMesh
    sent: dict[bytes, tuple[int, float]] = field(default_factory=dict)
    """The device that sent a packet, and when."""
    received: list[tuple[bytes, float]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener, *self._devices = [
            Device(self.mesh.ports["devices"]).trusted_by(self.mesh) for _ in range(1 + DEVICES)
        ]
        self._listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._listener.subscribe("exact.>", seconds=BACK_SECONDS)
        with running_threads(self._over, self._listen, self._send):
            yield

    def _send(self) -> None:
        chance, number = random.Random(1), 0
        while not self._over.wait(PAUSE_SECONDS):
            for at, device in enumerate(self._devices):
                number += 1
                packet = device.packet(f"exact.{at}", str(number))
                self.sent[packet] = at, time.monotonic()
                device.send(packet)
                if chance.random() < REPEATED:
                    device.send(chance.choice(list(self.sent)))

    def _listen(self) -> None:
        silent_seconds = 0
        while not (self._over.is_set() and self.is_all_here()) and silent_seconds < SILENT_SECONDS:
            if (packet := self._listener.receive(1.0)) is not None:
                self.received.append((packet, time.monotonic()))
            elif self._over.is_set():
                silent_seconds += 1

    def is_all_here(self) -> bool:
        return len({packet for packet, _ in self.received}) >= len(self.sent)

    def is_back(self, since: float) -> bool:
        """True if something has come of each device that was sent after that."""
        latest = {self.sent[packet][0] for packet, _ in list(self.received) if self.sent[packet][1] > since}
        return len(latest) == DEVICES

    def dropped(self) -> int | None:
        """Returns how many packets the kernel had no room for in the listener's socket."""
        return kernel_drops(self._listener.socket)

    def close(self) -> None:
        for device in (self._listener, *self._devices):
            device.close()


@dataclass
class MeshOnExecutors:
    """A broker, an edge, and a router whose lanes run on the executors of a cluster."""

    mesh: TestMesh
    cluster: Standalone
    load: Load = field(init=False)
    _parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        self.load = Load(self.mesh)
        self._start("kafka")
        self._start("edge", "-v")
        self.start_router()
        self._wait(self.is_ready, "begun")

    def start_router(self) -> None:
        self._start("router", "-v", "--master", self.cluster.master, "--conf", "spark.executor.memory=1g")

    def _start(self, verb: str, *options: str) -> None:
        command = [sys.executable, "-m", "gateway.cli", verb, "-c", str(self.mesh.config_file), *options]
        logs = self.mesh.folder / "state" / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{verb}.log").open("ab") as log:
            self._parts[verb] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end_router(self, number: signal.Signals) -> int:
        self._parts["router"].send_signal(number)
        return self._parts["router"].wait(60)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            url = f"http://127.0.0.1:{self.mesh.ports['router']}/healthz/ready"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        return False

    def wait_until_back(self, what: str) -> None:
        """Waits for what is sent from now on. The executors of a driver that was killed go on for a moment, so a new
        driver must be ready too.
        """
        since = time.monotonic()
        self._wait(lambda: self.is_ready() and self.load.is_back(since), what)
        print(f"{what}: {time.monotonic() - since:.1f} s until routing again")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, f"routing, {what}", BACK_SECONDS)
        except AssertionError as late:
            raise AssertionError(f"{late}{self.mesh.logs()}{self.cluster.logs()}") from None

    def stop(self) -> None:
        for verb in ("router", "edge", "kafka"):
            if verb in self._parts:
                self._parts[verb].terminate()
                self._parts[verb].wait(60)
        self.load.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[MeshOnExecutors]:
    mesh = TestMesh(tmp_path / "mesh")
    subprocess.run([sys.executable, "-m", "gateway.cli", "init", "--dir", str(mesh.folder)], check=True)
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp", "lease_seconds": 3_600}])
    with standalone(tmp_path / "cluster", "one", "two", slots=SLOTS) as cluster:
        on_executors = MeshOnExecutors(mesh, cluster)
        try:
            on_executors.start()
            yield on_executors
        finally:
            on_executors.stop()


def event_ids(mesh: TestMesh) -> dict[str, set[str]]:
    """Returns the ids of the events that each message became."""
    found: dict[str, set[str]] = {}
    for record in every_record(load(mesh.config_file), "events"):
        for event in event_records.read(record.headers, record.value or b""):
            if event.subject.startswith("exact."):
                found.setdefault(f"{event.node} {event.message_id}", set()).add(event.id)
    return found


def test_each_message_passes_once_whatever_is_lost(running: MeshOnExecutors) -> None:
    load = running.load
    with load.running():
        running.wait_until_back("begun")
        running.cluster.kill_worker("one")
        running.wait_until_back("a worker killed with its executor")
        running.end_router(signal.SIGKILL)
        running.start_router()
        running.wait_until_back("the driver killed")
    events = event_ids(running.mesh)
    assert len(events) == len(load.sent)
    assert [ids for ids in events.values() if len(ids) != 1] == []
    received = Counter(packet for packet, _ in load.received)
    missing = load.sent.keys() - received.keys()
    assert not missing, f"{len(missing)} packets missing; the listener's full socket dropped {load.dropped()}"
    assert set(received.values()) == {1}

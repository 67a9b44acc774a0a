"""The contenders. Each has an address that takes packets, and delivers what it lets through to another."""

from __future__ import annotations

import json
import secrets
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from gateway.bench.machine import roots_of
from gateway.bench.measure import Setup
from gateway.bench.messages import PeerPlace
from gateway.bench.signing_keys import bench_keys, for_signing
from gateway.bench.workload import Workload
from gateway.client import PacketKey
from gateway.protocols.emm.signing import Signer
from tests.bench.peers.bento import write_bento
from tests.bench.peers.pipelines.settings import HOST, Settings
from tests.bench.peers.proof import check_work
from tests.bench.peers.running import Running
from tests.bench.peers.tools import Tools
from tests.integration.mesh import TestMesh, free_port

PARTITIONS = 1
WINDOW_SECONDS = 300
TOPIC = "raw"
START_SECONDS = 60.0
KEY_SECONDS = 3_600.0
REPOSITORY = Path(__file__).resolve().parents[3]


class Contender(ABC):
    """`start` and `stop` may come again: each start is a fresh one, in a folder of its own."""

    name: ClassVar[str]

    def __init__(self, folder: Path, tools: Tools) -> None:
        self.folder = folder
        self.tools = tools

    def missing(self) -> Path | None:
        """A program that it needs and that is not there."""
        return None

    def dead(self) -> str | None:
        """A process of its that has ended by itself, with its last words."""
        return None

    @abstractmethod
    def start(self, work: Workload) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    @contextmanager
    def setup(self, work: Workload) -> Iterator[Setup]:
        """For one run while it is on."""


class Meshgate(Contender):
    """`meshgate up`, as it comes."""

    name = "Meshgate"
    _mesh: TestMesh | None = None

    def start(self, work: Workload) -> None:
        self._mesh = TestMesh(self.folder, {"kafka": {"partitions": PARTITIONS}})
        self._mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
        try:
            self._mesh.start()
        except AssertionError as failed:
            raise RuntimeError(str(failed)) from failed

    def stop(self) -> None:
        if self._mesh is not None:
            self._mesh.stop()

    @contextmanager
    def setup(self, work: Workload) -> Iterator[Setup]:
        assert self._mesh is not None
        roots = roots_of(self.folder / "state" / "running.json")
        with bench_keys(self._mesh.keys_file, work.sessions + 1, KEY_SECONDS, datetime.now(UTC)) as keys:
            url = _url(self._mesh.ports["devices"])
            origin = PeerPlace("emm", url, tuple(for_signing(key, work.sign) for key in keys[1:]))
            yield Setup(origin=origin, target=PeerPlace("emm", url, (keys[0],)), roots=roots)


class Pipeline(Contender):
    """Made of processes that we start, with keys of their own and ports that are free."""

    def start(self, work: Workload) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._running = Running(self.folder)
        self._keys = [_new_key() for _ in range(work.sessions)]
        listen, deliver = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM)
        self._settings = Settings(
            listen, deliver, free_port(), TOPIC, PARTITIONS,
            dict(_named_secret(key) for key in self._keys),
            WINDOW_SECONDS, str(self.folder),
        )  # fmt: skip
        self._file = self.folder / "settings.json"
        self._file.write_text(json.dumps(asdict(self._settings)))
        try:
            self._start_server(self._running, self._settings)
            self._start_pipeline(self._running, self._settings, work)
            check_work(self.name, _url(listen), _url(deliver), self._keys[0], work.size)
        except RuntimeError as failed:
            dead = self._running.dead()
            self.stop()
            raise RuntimeError(dead or str(failed)) from failed

    def stop(self) -> None:
        self._running.stop()

    @contextmanager
    def setup(self, work: Workload) -> Iterator[Setup]:
        origin = PeerPlace("emm", _url(self._settings.listen), tuple(self._keys))
        target = PeerPlace("emm", _url(self._settings.deliver), is_bare=True)
        yield Setup(origin=origin, target=target, roots=self._running.roots)

    def dead(self) -> str | None:
        return self._running.dead()

    def _start_server(self, running: Running, settings: Settings) -> None:
        """The same broker as Meshgate's, with the same settings, and a topic like its raw log."""
        config = self.folder / "broker.yaml"
        config.write_text(json.dumps({"mesh": "peers", "kafka": {"listen": f"{HOST}:{settings.server}"}}))
        running.start("broker", [sys.executable, "-m", "gateway.cli", "kafka", "-c", str(config)], _repository())
        _wait_for(settings.server, running)
        _create_topic(settings)

    @abstractmethod
    def _start_pipeline(self, running: Running, settings: Settings, work: Workload) -> None: ...

    def _start_modules(self, running: Running, python: str, names: Sequence[str]) -> None:
        for name in names:
            line = [python, "-m", f"tests.bench.peers.pipelines.{name}", str(self._file)]
            running.start(name.partition("_")[2], line, _repository())


class HandWritten(Pipeline):
    name = "asyncio + kafka-python"

    def _start_pipeline(self, running: Running, settings: Settings, work: Workload) -> None:
        self._start_modules(running, sys.executable, ["kafka_ingest", "kafka_worker"])


class QuixStreams(Pipeline):
    name = "Quix Streams"

    def missing(self) -> Path | None:
        return None if self.tools.python.exists() else self.tools.python

    def _start_pipeline(self, running: Running, settings: Settings, work: Workload) -> None:
        self._start_modules(running, str(self.tools.python), ["confluent_ingest", "quix_worker"])


class Bento(Pipeline):
    name = "Bento"

    def missing(self) -> Path | None:
        return None if self.tools.bento.exists() else self.tools.bento

    def _start_pipeline(self, running: Running, settings: Settings, work: Workload) -> None:
        running.start("bento", [str(self.tools.bento), *write_bento(self.folder, settings, work.size, free_port())])


class Nats(Pipeline):
    name = "NATS JetStream"

    def missing(self) -> Path | None:
        return None if self.tools.nats_server.exists() else self.tools.nats_server

    def _start_server(self, running: Running, settings: Settings) -> None:
        store = str(self.folder / "jetstream")
        line = [str(self.tools.nats_server), "-js", "-sd", store, "-a", HOST, "-p", str(settings.server)]
        running.start("broker", line)
        _wait_for(settings.server, running)

    def _start_pipeline(self, running: Running, settings: Settings, work: Workload) -> None:
        self._start_modules(running, str(self.tools.python), ["nats_ingest", "nats_worker"])


CONTENDERS: dict[str, type[Contender]] = {
    "meshgate": Meshgate,
    "asyncio": HandWritten,
    "quix": QuixStreams,
    "bento": Bento,
    "nats": Nats,
}


def _url(port: int) -> str:
    return f"udp://{HOST}:{port}"


def _repository() -> dict[str, str]:
    """Returns where the contenders' own modules are found, whatever environment they run in."""
    return {"PYTHONPATH": str(REPOSITORY)}


def _new_key() -> PacketKey:
    """Its secret is text, for one of the contenders has no other."""
    return PacketKey(Signer(uuid4().bytes, bytes.fromhex("00000001"), secrets.token_hex(16).encode()))


def _named_secret(key: PacketKey) -> tuple[str, str]:
    signer = key.signer
    return (signer.node + (signer.key_id or b"")).hex(), (signer.hmac or b"").hex()


def _wait_for(port: int, running: Running) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if (dead := running.dead()) is not None:
            raise RuntimeError(dead)
        try:
            with socket.create_connection((HOST, port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port} after {START_SECONDS:g} s")


def _create_topic(settings: Settings) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=f"{HOST}:{settings.server}")
    admin.create_topics([NewTopic(settings.topic, settings.partitions, 1)])
    admin.close()

"""A cluster of three real brokers (KRaft, each is broker and controller), from the jars that the project fetches.

    broker-1 ─┐ a network namespace each             or, without namespaces, three ports of 127.0.0.1
    broker-2 ─┼─ bridge ─ where the mesh runs
    broker-3 ─┘ with a small disk of its own

Topics have three copies, two of which must have a record before it is acknowledged. In namespaces, a broker can be cut
off from the other two while its clients still reach it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway.local.broker import SETTINGS, jvm
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from tests.integration.mesh import free_port

NAMES = ("broker-1", "broker-2", "broker-3")
SMALL_DISK = NAMES[2]
"""The broker whose disk may be filled."""
DISK_MIB = 512
MESH_ADDRESS, BROKER_ADDRESS = "10.77.0.254", "10.77.0.{}"
CLUSTER = "bWVzaGdhdGUtYnJva2Vycw"
UP_SECONDS, END_SECONDS, ANSWER_SECONDS, LOOK_SECONDS = 120.0, 60.0, 5.0, 0.1
KAFKAS_SESSION_MILLISECONDS = 9_000
"""Kafka's default: so long the controller waits for a broker that says nothing, before others lead its partitions."""

_PROPERTIES = f"""\
{SETTINGS}
node.id={{id}}
controller.quorum.voters={{voters}}
listeners=PLAINTEXT://{{host}}:{{port}},CONTROLLER://{{host}}:{{controller_port}}
log.dirs={{data}}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
broker.session.timeout.ms={{session}}
"""


@dataclass
class Broker:
    """One broker. `home` holds its network namespace, if it has one."""

    id: int
    host: str
    port: int
    controller_port: int
    folder: Path
    home: subprocess.Popen[bytes] | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def within(self, *command: str) -> list[str]:
        """Returns the command as it runs in this broker's network."""
        entered = [] if self.home is None else ["nsenter", f"--net=/proc/{self.home.pid}/ns/net"]
        return [*entered, *command]


class Brokers:
    """The cluster. With `in_namespaces` it needs root, and a network namespace that nobody else uses."""

    def __init__(
        self, folder: Path, *, in_namespaces: bool = False, session_milliseconds: int = KAFKAS_SESSION_MILLISECONDS
    ) -> None:
        self._folder = folder
        self._session_milliseconds = session_milliseconds
        self._in_namespaces = in_namespaces
        self._brokers = {
            name: Broker(
                number,
                BROKER_ADDRESS.format(number) if in_namespaces else "127.0.0.1",
                free_port(),
                free_port(),
                folder / name,
            )
            for number, name in enumerate(NAMES, 1)
        }
        self._java: Java = find_java()
        self._jars = os.pathsep.join(map(str, ensure_jars("broker")))
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self._brokers.values())

    def pid(self, name: str) -> int | None:
        broker = self._brokers[name]
        return broker.process.pid if broker.process is not None and broker.is_running else None

    def pids(self) -> set[int]:
        """The processes that belong to the cluster."""
        processes = [one for broker in self._brokers.values() for one in (broker.home, broker.process)]
        return {process.pid for process in processes if process is not None}

    # -- up and down -------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._in_namespaces:
            self._connect()
        self._format()
        self.revive()
        self.wait("three brokers are known", lambda: len(self._known()) == len(NAMES))

    def revive(self) -> None:
        """Starts the brokers that do not run."""
        for broker in self._brokers.values():
            if not broker.is_running:
                self._start(broker)

    def restart(self, name: str) -> None:
        """Ends a broker in order and starts it again, as an operator's rolling upgrade does."""
        broker = self._brokers[name]
        assert broker.process is not None
        broker.process.terminate()
        broker.process.wait(END_SECONDS)
        self.revive()

    def stop(self) -> None:
        for broker in self._brokers.values():
            for process in (broker.process, broker.home):
                if process is not None:
                    process.kill()
                    process.wait()
        if self._in_namespaces:
            _run("umount", "--lazy", str(self._brokers[SMALL_DISK].data))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _format(self) -> None:
        voters = ",".join(f"{one.id}@{one.host}:{one.controller_port}" for one in self._brokers.values())
        begun = []
        for name, broker in self._brokers.items():
            broker.data.mkdir(parents=True)
            if self._in_namespaces and name == SMALL_DISK:
                _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(broker.data))
            content = _PROPERTIES.format(
                **vars(broker), data=broker.data, voters=voters, session=self._session_milliseconds
            )
            broker.properties.write_text(content)
            command = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(broker.properties)]
            begun.append(
                subprocess.Popen(
                    [*jvm(self._java, self._jars), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
        for process in begun:
            said, _ = process.communicate()
            assert process.returncode == 0, said.decode(errors="replace")

    def _start(self, broker: Broker) -> None:
        command = [*jvm(self._java, self._jars), "kafka.Kafka", str(broker.properties)]
        with (broker.folder / "broker.log").open("ab") as log:
            broker.process = subprocess.Popen(broker.within(*command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    # -- what the cluster says ---------------------------------------------------------------------------------

    def lacking(self) -> list[str]:
        """The partitions of which a copy is behind; a line that says why if the cluster does not answer."""
        try:
            topics = self._ask().list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException as error:
            return [str(error)]
        return [
            f"{topic.topic}-{number}"
            for topic in topics.values()
            for number, partition in topic.partitions.items()
            if len(partition.isrs) < len(partition.replicas)
        ]

    def leader(self, topic: str, partition: int) -> str:
        """The broker that leads a partition."""
        found = self._ask().list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        return NAMES[found.partitions[partition].leader - 1]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + UP_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {UP_SECONDS:.0f} s: {what}{self.logs()}")
            time.sleep(LOOK_SECONDS)

    def logs(self) -> str:
        logs = [(name, broker.folder / "broker.log") for name, broker in self._brokers.items()]
        return "".join(f"\n--- {name}\n{log.read_text(errors='replace')[-2000:]}" for name, log in logs if log.exists())

    def _known(self) -> Sequence[object]:
        with contextlib.suppress(KafkaException):
            return list(self._ask().list_topics(timeout=ANSWER_SECONDS).brokers)
        return []

    def _ask(self) -> AdminClient:
        if self._admin is None:
            quiet = logging.getLogger("tests.chaos.brokers")
            quiet.setLevel(logging.CRITICAL)
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=quiet)
        return self._admin

    # -- network and disk --------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Gives each broker a network of its own, on one bridge with the mesh."""
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "brokers", "type", "bridge")
        _ip("addr", "add", f"{MESH_ADDRESS}/24", "dev", "brokers")
        _ip("link", "set", "brokers", "up")
        for name, broker in self._brokers.items():
            broker.home = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
            self.wait(f"{name} has a network", partial(_has_own_network, broker.home.pid))
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(broker.home.pid))
            _ip("link", "set", name, "master", "brokers", "up")
            for line in ("link set lo up", f"addr add {broker.host}/24 dev eth0", "link set eth0 up"):
                _run(*broker.within("ip", *line.split()))

    def cut(self, name: str) -> None:
        """Lets nothing pass between this broker and the other two. Clients still reach it."""
        self._route("add", name)

    def mend(self, name: str) -> None:
        self._route("del", name)

    def _route(self, verb: str, name: str) -> None:
        mine = self._brokers[name]
        for other in self._brokers.values():
            if other is not mine:
                _run(*mine.within("ip", "route", verb, "blackhole", f"{other.host}/32"))

    @property
    def small_disk(self) -> Path:
        return self._brokers[SMALL_DISK].data


def _has_own_network(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    return False


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)

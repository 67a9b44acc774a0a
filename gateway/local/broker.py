"""The embedded broker: a real Apache Kafka (KRaft), one node that is broker and controller, in a process of its own.

For one machine. In production the mesh uses a cluster of its own (`kafka.bootstrap: host:port,…`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gateway.config import Config
from gateway.core.address import MAX_PORT, HostPort
from gateway.core.errors import SetupError
from gateway.local.class_archive import ClassArchive
from gateway.local.jars import ensure_jars
from gateway.local.java import COMPILES_EARLY, LOCALE, Java
from gateway.local.processes import what_happened

HEAP = "256m"  # enough for 75,000 frames/s in containers, measured; the page cache does the rest
MIN_FREE_BYTES = 512 * 1024 * 1024
"""Below this the broker would stop in the middle of something; better not to start."""

_LOG = {
    "defaultLogLevel": "warn",
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
}
"""Lines begin with their time, as ours do."""

NAMED = "-Dmeshgate.part=meshgate kafka"
"""Names the process as it was before it became Java's, for those who look for it by that name."""

SETTINGS = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
offsets.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes=8388608
replica.fetch.max.bytes=8388608
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=33554432
"""
"""The settings of any broker, whether it is alone or one of several."""

_PROPERTIES = f"""\
{SETTINGS}
node.id=1
controller.quorum.voters=1@127.0.0.1:{{controller_port}}
listeners=PLAINTEXT://{{listen}},CONTROLLER://127.0.0.1:{{controller_port}}
advertised.listeners=PLAINTEXT://{{advertised}}
log.dirs={{data}}
num.network.threads={{threads}}
num.io.threads={{threads}}
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
metadata.max.idle.interval.ms=0
"""
# The session: a broker that was killed may only register again when its last session is over, which by default takes
# nine seconds. In a process with its controller it cannot be cut off from it, so there is nothing to wait for.
# The idle interval: at rest the controller would write an empty record twice a second, for brokers that lag behind.


@dataclass(frozen=True, slots=True)
class Broker:
    """The embedded broker: where it listens and where it keeps its data."""

    listen: HostPort
    controller_port: int
    folder: Path

    @classmethod
    def of(cls, config: Config) -> Broker:
        """Returns the broker that a configuration asks for. Its controller listens on loopback, on a free port."""
        return cls(config.kafka.listen, _free_port(config), config.state_dir / "state" / "kafka")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def command(self, java: Java, *, lists_classes: bool = False) -> list[str]:
        """Returns the command of the broker process, and formats its storage the first time.

        Args:
            lists_classes: where there is no class archive, this process lists its classes for one.
        """
        paths = list(map(str, ensure_jars("broker")))
        jars = os.pathsep.join(paths)
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            self._format(java, jars, properties)
        archived = broker_archive(java, paths).options(lists=lists_classes)
        return [*jvm(java, jars, NAMED, *COMPILES_EARLY, *archived), "kafka.Kafka", str(properties)]

    def _write_properties(self) -> Path:
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            refuse_a_full_disk(self.data)
            path = self.folder / "server.properties"
            path.write_text(
                _PROPERTIES.format(
                    listen=self.listen,
                    advertised=self.listen.reachable,  # Kafka refuses to start with 0.0.0.0
                    controller_port=self.controller_port,
                    data=_in_properties(self.data.resolve()),
                    threads=threads(),
                )
            )
        except OSError as error:
            raise SetupError(f"cannot write {self.folder}: {error.strerror}") from error
        return path

    def _format(self, java: Java, jars: str, properties: Path) -> None:
        command = [*jvm(java, jars), "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(properties)]
        environment = os.environ | LOCALE
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
        if run.returncode:
            raise SetupError(f"the broker could not format {self.data}: {what_happened(run.stderr)}")


def _in_properties(folder: Path) -> str:
    r"""Returns a folder as Java reads it from a file of properties. Raises SetupError for one that Kafka cannot have.

    >>> print(_in_properties(Path("/home/jürgen/a mesh")))
    /home/j\u00fcrgen/a mesh
    """
    if "," in str(folder):
        raise SetupError(f"{folder}: Kafka takes what follows a comma for another folder: give one without, by --dir")
    units = memoryview(str(folder).encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if " " <= chr(unit) <= "~" and unit != ord("\\") else f"\\u{unit:04x}" for unit in units)


def refuse_a_full_disk(folder: Path) -> None:
    """Raises SetupError where the broker would stop in the middle of something."""
    if (free := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
        raise SetupError(
            f"{folder} has {free // 2**20} MiB free, the broker wants {MIN_FREE_BYTES // 2**20}: make room,"
            " or give another folder with --dir"
        )


def _cluster_id() -> str:
    """Returns a new id. One of 64 would begin with a dash, which Kafka's tool takes for an option."""
    while (cluster := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return cluster


def broker_archive(java: Java, jars: Iterable[str], pid: int | None = None) -> ClassArchive:
    """Returns the class archive of the broker that runs, or will run, as process `pid`, by default this one."""
    return ClassArchive("broker", java, jars, pid)


def _free_port(config: Config) -> int:
    """Returns a port above the broker's own that the configuration does not name, for what is to listen there may still
    be on its way up. It may be another at each start: the quorum's one voter is known by its id, and finds itself in
    the properties."""
    own = (config.kafka.listen, config.edge.management, config.router.management)
    named = {interest.port for interest in own} | {endpoint.address.port for endpoint in config.endpoints}
    for port in sorted(set(range(config.kafka.listen.port + 1, MAX_PORT + 1)) - named):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java asks: what was closed is no hindrance
            probe.bind(("127.0.0.1", port))
            return port
    raise SetupError(f"kafka.listen: {config.kafka.listen} has no free port above it, which the broker needs too")


def threads() -> int:
    """Returns the number of threads of each kind: half the cores.

    A request is so short that a second thread on two cores mostly waits for the first. With one of each the broker
    takes a third less processor time, and the way through the mesh half as long.
    """
    return max(1, (os.cpu_count() or 2) // 2)


def jvm(java: Java, jars: str, *more: str) -> list[str]:
    """Returns the beginning of a command that runs one of the broker's classes. `more` are options of the JVM."""
    options = [f"-Xmx{HEAP}", "-Xms64m", "-XX:+UseSerialGC", "-Xshare:auto"]
    options.append("--enable-native-access=ALL-UNNAMED")  # for zstd's library; else Java warns of it at each start
    logging = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _LOG.items()] + ["-Duser.timezone=UTC"]
    return [java.executable, *more, *options, *logging, "-cp", jars]

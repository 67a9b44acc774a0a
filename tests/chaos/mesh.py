"""The mesh that is killed: `meshgate up`, two more edges, and a name for each of its parts."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.chaos.brokers import NAMES as BROKERS
from tests.chaos.brokers import Brokers
from tests.chaos.clocks import WallClock
from tests.chaos.processes import MARK, Process, below, marked, orphans
from tests.integration.edges import MoreEdge
from tests.integration.mesh import Settings, TestMesh
from tests.integration.processes import stopped

LISTENERS: list[dict[str, object]] = [
    {"name": "devices", "protocol": "emm", "scheme": "udp"},
    {"name": "hsp", "protocol": "hsp", "envelope": "always"},
    {"name": "yamp", "protocol": "yamp"},
]
EDGES_AT_MOST = 4
BROKER, ROUTER, JVM, DAEMON, WORKER = "broker", "router", "jvm", "daemon", "worker"
STANDBY = "router-standby"
"""The two change places: what is called so may be the one that routes."""
PARTS = (ROUTER, JVM, DAEMON, WORKER, BROKER, "edge-0", "edge-1")
"""Those that may be killed. edge-2 holds the sessions that must live."""
UP = "up"
CLOCKS = (UP, "edge-1")
"""Machines whose clocks can be set: that of `meshgate up` with all its parts, and an edge's."""


class ChaosMesh:
    """`standby`: with a second router, warm, that takes over from the first. `clocks`: some can be set. `brokers`: the
    cluster that it uses instead of a broker of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        standby: bool = False,
        clocks: bool = False,
        in_flight_bytes: int | None = None,
        brokers: Brokers | None = None,
    ) -> None:
        self.brokers = brokers
        self._attends = True
        self.mark = secrets.token_hex(8)
        self.said: list[str] = []
        topics = {"egress": {"partitions": EDGES_AT_MOST}}
        kafka: dict[str, object] = {"topics": topics, "embedded_bytes": None}  # the audit must find all of it
        if brokers is not None:
            kafka["bootstrap"] = brokers.bootstrap
        settings: Settings = {"kafka": kafka, "router": {"standby": standby}}
        if in_flight_bytes:
            settings["limits"] = {"in_flight_bytes": in_flight_bytes}
        self.mesh = TestMesh(folder, settings)
        self.mesh.configure([dict(one) for one in LISTENERS])
        self._edges = {name: MoreEdge(self.mesh, name) for name in ("edge-1", "edge-2")}
        self.clocks = {name: WallClock(folder, name) for name in CLOCKS} if clocks else {}

    def start(self) -> None:
        os.environ[MARK] = self.mark  # all that is started from here on has it
        if self.brokers is not None:
            self.brokers.start()
        with self._time_of(UP):
            self.mesh.start()
        for name, edge in self._edges.items():
            edge.configure()
            with self._time_of(name):
                edge.start()
        for edge in self._edges.values():
            edge.wait()

    def stop(self) -> None:
        for edge in self._edges.values():
            edge.end()
        try:
            if self.mesh.process is not None:
                self.mesh.stop()
        finally:
            if self.brokers is not None:
                self.brokers.stop()

    def management(self, part: str) -> str:
        """Returns the management address of an edge, or of the router."""
        mine = self._edges[part].ports if part in self._edges else self.mesh.ports
        return f"127.0.0.1:{mine[ROUTER if part == ROUTER else 'edge']}"

    def port(self, edge: str, listener: str) -> int:
        return self.mesh.ports[listener] if edge == "edge-0" else self._edges[edge].ports[listener]

    # -- parts -------------------------------------------------------------------------------------------------

    def pid(self, part: str, chance: random.Random) -> int | None:
        """None while it is not there: it was killed, and its successor is not up yet."""
        if part in self._edges:
            return self._edges[part].pid
        if part in BROKERS and self.brokers is not None:
            return self.brokers.pid(part)
        with contextlib.suppress(StopIteration, OSError, ValueError):
            if part in (BROKER, "edge-0", ROUTER, STANDBY):
                return self.mesh.pid_of({BROKER: "kafka", "edge-0": "edge"}.get(part, part))
            found = [one.pid for one in self._of_router() if _is(part, one)]
            return chance.choice(found) if found else None
        return None

    def _of_router(self) -> list[Process]:
        return list(below(marked(self.mark), self.mesh.pid_of("router")))

    def signal(self, part: str, number: signal.Signals, chance: random.Random) -> int | None:
        """The process that got it, if there was one. Only to what was started here."""
        pid = self.pid(part, chance)
        if pid is None or pid not in marked(self.mark):
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return pid
        return None

    def revive(self) -> None:
        """What `up` does for its own parts: an edge that has died is started again, at once. And `up` is listened to,
        for it waits when nobody takes what it says. Brokers of a cluster are started again too."""
        assert self.mesh.process is not None
        assert self.mesh.process.stdout is not None
        with contextlib.suppress(BlockingIOError, TypeError):
            self.said += self.mesh.process.stdout.read().splitlines()
        if self.brokers is not None and self._attends:
            self.brokers.revive()
        for name, edge in self._edges.items():
            if edge.process is not None and edge.process.poll() is not None:
                with self._time_of(name):
                    edge.start()

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """What dies within stays away: `up`, which would start it again at once, is frozen. So do brokers."""
        assert self.mesh.process is not None
        self._attends = False
        try:
            with stopped(self.mesh.process.pid):
                yield
        finally:
            self._attends = True

    @contextmanager
    def _time_of(self, name: str) -> Iterator[None]:
        """What is started within has this one's clock."""
        mine = self.clocks[name].environment if name in self.clocks else {}
        os.environ.update(mine)
        try:
            yield
        finally:
            for variable in mine:
                del os.environ[variable]

    # -- what is left ------------------------------------------------------------------------------------------

    def left_behind(self) -> list[Process]:
        roots = {edge.pid for edge in self._edges.values()}
        if self.brokers is not None:
            roots |= self.brokers.pids()
        assert self.mesh.process is not None
        return orphans(marked(self.mark), roots | {self.mesh.process.pid})

    def usage(self) -> dict[str, tuple[int, int]]:
        """Handles and bytes of memory of each edge, of the broker and of the router's driver."""
        chance, processes = random.Random(0), marked(self.mark)
        parts = ("edge-0", "edge-1", "edge-2", BROKER, ROUTER)
        pids = ((part, self.pid(part, chance)) for part in parts)
        found = ((part, processes[pid]) for part, pid in pids if pid in processes)
        return {part: (process.handles, process.resident_bytes) for part, process in found}


def _is(part: str, process: Process) -> bool:
    """A worker is forked by the daemon and has its command; what tells them apart is who began them."""
    is_python = "streaming_jobs.router_job.worker_daemon" in process.command
    if part == JVM:
        return "SparkSubmit" in process.command
    parent = Path(f"/proc/{process.parent}/cmdline").read_bytes()
    is_forked = b"streaming_jobs.router_job.worker_daemon" in parent
    return is_python and is_forked == (part == WORKER)


@contextmanager
def chaos_mesh(folder: Path, **more: Any) -> Iterator[ChaosMesh]:
    mesh = ChaosMesh(folder, **more)
    try:
        mesh.start()
        yield mesh
    finally:
        mesh.stop()

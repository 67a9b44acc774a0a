"""Measures several of everything: what a frame costs, and how much passes, with 1, 2 and 4 edges and lanes.

    python -m tests.bench.scaling                    5 minutes; needs root, for control groups
    python -m tests.bench.scaling --counts 2 --rate 6000
    python -m tests.bench.scaling --columns          a point of each column of the sums: 4 minutes

Each edge has a control group of its own, and so have the router and the broker. First nothing limits them, and the cost
of a frame is read from the groups. Then edges or router get a part of a core each, so that a machine of two cores has
four small ones. More is sent than they can take, and what passes is counted. Compare ratios, not rates.

A point of a column of `tests.bench.sums` has its number of edges and lanes, as far as two cores can have them, and the
linger that fills a record as the sums ask for.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.sums import MEASURED
from tests.integration.edges import more_edges
from tests.integration.mesh import TestMesh

COUNTS = (1, 2, 4)
RATE = 6_000.0
EDGE_CORES, LANE_CORES = 0.06, 0.15
"""Small enough that four of them, the broker and the generators fit on two cores."""
OVERLOAD = 4.0
"""More is sent than the cost of a frame at rest lets pass, by this factor: full records are cheaper."""
COLUMN_RATE = 10_000.0
POINTS = {"one lane": (1, 1), "10,000": (2, 4), "100,000": (3, 4), "1,000,000": (8, 2), "10,000,000": (2, 8)}
"""The edges and lanes of each column of the sums. The last two have hundreds of pairs; two cores can run sixteen,
once with many edges, once with many lanes."""
COMPILE_SECONDS = 8.0
"""JVMs have compiled most of what matters by then."""
SETTLE_SECONDS, MEASURE_SECONDS = 3.0, 8.0
LOAD_SECONDS, LOAD_SECONDS_AN_EDGE = 25.0, 5.0
"""Generators begin one after the other, and are interrupted before they are through."""
SESSIONS = 64
"""Enough nodes for each lane to get about the same share."""
PERIOD_US = 20_000
"""The kernel gives out processor time by this period: a group that has used its part waits for the next one."""
ANSWER_SECONDS = 10.0
GROUPS = Path("/sys/fs/cgroup")


class ControlGroup:
    """A control group of version 1 or 2, with processes and all that they begin later."""

    def __init__(self, name: str) -> None:
        self._is_unified = (GROUPS / "cgroup.controllers").exists()
        roots = [GROUPS] if self._is_unified else [GROUPS / "cpu", GROUPS / "cpuacct"]
        self._folders = [root / f"meshgate-scaling-{name}" for root in roots]
        if self._is_unified:
            (GROUPS / "cgroup.subtree_control").write_text("+cpu")
        for folder in self._folders:
            folder.mkdir(exist_ok=True)

    def add(self, pid: int) -> None:
        """Adds a process and all below it."""
        for folder in self._folders:
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid))
        for child in _children(pid):
            self.add(child)

    def limit(self, cores: float | None) -> None:
        quota = int(cores * PERIOD_US) if cores else 0
        if self._is_unified:
            (self._folders[0] / "cpu.max").write_text(f"{quota or 'max'} {PERIOD_US}")
        else:
            (self._folders[0] / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._folders[0] / "cpu.cfs_quota_us").write_text(str(quota or -1))

    @property
    def used_seconds(self) -> float:
        folder = self._folders[-1]
        if not self._is_unified:
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        return int((folder / "cpu.stat").read_text().split()[1]) / 1e6

    def remove(self) -> None:
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


@dataclass(frozen=True)
class Measured:
    """Frames a second that edges took and delivered, and microseconds of processor time for each that was delivered."""

    taken: float
    delivered: float
    edges: float
    broker: float
    router: float

    @property
    def us(self) -> float:
        return self.edges + self.broker + self.router

    def __str__(self) -> str:
        parts = f"edges {self.edges:.1f}, broker {self.broker:.1f}, router {self.router:.1f}, together {self.us:.1f}"
        return f"{self.delivered:,.0f} of {self.taken:,.0f}/s delivered; µs a frame: {parts}"


class ScaledMesh:
    """A mesh with several edges and lanes; each edge, the broker and the router have a control group."""

    def __init__(self, folder: Path, edges: int, lanes: int, linger_milliseconds: float | None = None) -> None:
        self._edges = edges
        topics = {"egress": {"partitions": max(COUNTS[-1], edges)}}
        settings: dict[str, object] = {"kafka": {"partitions": lanes, "topics": topics}}
        if linger_milliseconds is not None:
            settings["edge"] = {"record": {"linger_milliseconds": linger_milliseconds}}
        self._mesh = TestMesh(folder, settings)
        self._mesh.configure(
            [{"name": "devices", "protocol": "emm", "scheme": "udp"}, {"name": "apps", "protocol": "yamp"}]
        )
        self._configs = [self._mesh.config_file]
        self._ports: list[int] = []
        self._groups: dict[str, ControlGroup] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as ends:
            ends.callback(self._remove_groups)
            self._mesh.start()
            ends.callback(self._mesh.stop)
            others = ends.enter_context(more_edges(self._mesh, *(f"edge-{n}" for n in range(1, self._edges))))
            self._configs += [edge.config_file for edge in others]
            self._ports = [self._mesh.ports["edge"], *(edge.ports["edge"] for edge in others)]
            parts = {f"edge-{n}": pid for n, pid in enumerate([self._mesh.pid_of("edge"), *(e.pid for e in others)])}
            parts |= {"router": self._mesh.pid_of("router"), "broker": self._mesh.pid_of("kafka")}
            for name, pid in parts.items():
                self._groups[name] = ControlGroup(name)
                self._groups[name].add(pid)
            yield

    def _remove_groups(self) -> None:
        for group in self._groups.values():
            group.remove()

    def measure(self, rate: float, settle_seconds: float, cores: Mapping[str, float] | None = None) -> Measured:
        """Sends to all edges alike. Groups whose names begin so get that many cores once everybody sends."""
        with contextlib.ExitStack() as ends:
            for config in self._configs:
                seconds = LOAD_SECONDS + LOAD_SECONDS_AN_EDGE * self._edges
                ends.enter_context(_generator(config, rate / self._edges, seconds))
            for name, group in self._groups.items():
                group.limit(next((part for prefix, part in (cores or {}).items() if name.startswith(prefix)), None))
                ends.callback(group.limit, None)
            time.sleep(settle_seconds)
            begun, used, taken, delivered = self._sample()
            time.sleep(MEASURE_SECONDS)
            ended, used_then, taken_then, delivered_then = self._sample()
        count = delivered_then - delivered
        cost = {name: (used_then[name] - used[name]) * 1e6 / count for name in used}
        edges = sum(us for name, us in cost.items() if name.startswith("edge"))
        seconds = ended - begun
        return Measured((taken_then - taken) / seconds, count / seconds, edges, cost["broker"], cost["router"])

    def _sample(self) -> tuple[float, dict[str, float], float, float]:
        counted = [_metrics(port) for port in self._ports]
        taken = sum(_total(metrics, "meshgate_received_frames_total") for metrics in counted)
        delivered = sum(_total(metrics, "meshgate_egress_delivered_total") for metrics in counted)
        return time.monotonic(), {name: group.used_seconds for name, group in self._groups.items()}, taken, delivered


def _metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_SECONDS) as answer:
        samples = (line.rpartition(" ") for line in answer.read().decode().splitlines() if line[:1] not in ("", "#"))
        return {name: float(value) for name, _, value in samples}


def _total(metrics: Mapping[str, float], name: str) -> float:
    return sum(value for series, value in metrics.items() if series.partition("{")[0] == name)


@contextlib.contextmanager
def _generator(config: Path, rate: float, seconds: float) -> Iterator[None]:
    """Sends while this is entered. Its receiver is of yamp: several generators would share one node's lease of emm."""
    options = ["--to", "yamp", "--rate", str(rate), "--sessions", str(SESSIONS), "--seconds", str(seconds)]
    command = [sys.executable, "-m", "gateway.cli", "bench", "-c", str(config), *options, "--warm-up", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        lines = list(itertools.takewhile(lambda line: line and not line.startswith("sending"), process.stderr))
        if process.poll() is not None:
            raise AssertionError("".join(lines))
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS, choices=COUNTS)
    parser.add_argument("--rate", type=float, default=RATE, help="frames a second where nothing is limited")
    parser.add_argument("--edge-cores", type=float, default=EDGE_CORES)
    parser.add_argument("--lane-cores", type=float, default=LANE_CORES)
    parser.add_argument("--columns", nargs="*", choices=list(POINTS), help="points of the sums instead; all, or some")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("control groups need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what it began is ended too
    for line in _counts(options) if options.columns is None else _columns(options.columns or list(POINTS)):
        print(line, flush=True)
    return 0


@contextlib.contextmanager
def _mesh(edges: int, lanes: int, linger_milliseconds: float | None = None) -> Iterator[ScaledMesh]:
    with tempfile.TemporaryDirectory(prefix="meshgate-scaling-") as folder:
        mesh = ScaledMesh(Path(folder), edges, lanes, linger_milliseconds)
        with mesh.running():
            yield mesh


def _counts(options: argparse.Namespace) -> Iterator[str]:
    for count in options.counts:
        with _mesh(count, count) as mesh:
            for line in _limited(mesh, options, count):
                yield f"{count} edges and lanes  {line}"


def _limited(mesh: ScaledMesh, options: argparse.Namespace, count: int) -> Iterator[str]:
    free = mesh.measure(options.rate, COMPILE_SECONDS)
    yield f"free: {free}"
    router_cores = options.lane_cores * count
    for name, cores, capacity in (
        ("edge", options.edge_cores, options.edge_cores * count * 1e6 / free.edges),
        ("router", router_cores, router_cores * 1e6 / free.router),
    ):
        limited = mesh.measure(OVERLOAD * capacity, SETTLE_SECONDS, {name: cores})
        yield f"{name} of {cores:.2f} cores: {limited}"


def _columns(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        edges, lanes = POINTS[name]
        linger = MEASURED.record_frames * edges * lanes / COLUMN_RATE * 1000
        with _mesh(edges, lanes, linger) as mesh:
            measured = mesh.measure(COLUMN_RATE, COMPILE_SECONDS)
        yield f"{name}: {edges} edges, {lanes} lanes, linger {linger:.0f} ms: {measured}"


if __name__ == "__main__":
    sys.exit(main())

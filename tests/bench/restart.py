"""Measures a router that knows ten million ids: how long a restart takes, and how long nothing passes at a batch's end.

    python -m tests.bench.restart                     ten million, in one process
    python -m tests.bench.restart --millions 1 --kills 5 --ends 0
    python -m tests.bench.restart --executors         on a standalone cluster with two executors, which are lost too

The ids are put into the router's state by its own plan, from rows that no pass has made: a hundred ids a row, evenly
over the time that they are kept. Then broker, edge and router run, a device sends packets to itself, and the router is
killed. What is told is the time from the kill to the first packet that came back and was sent after it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from gateway.config import Config, load
from gateway.kafka.topics import ensure_topics
from streaming_jobs.router_job.checkpoint import claim, last_commit
from streaming_jobs.router_job.job import ONE_TASK
from streaming_jobs.router_job.lane import lane_name
from streaming_jobs.router_job.plan import PlainRow, read_raw, route
from streaming_jobs.routing.id_rows import PACKET_KEY_BYTES, pack_row
from streaming_jobs.routing.known_ids import keep_seconds
from streaming_jobs.spark.kafka_sink import sink_options
from streaming_jobs.spark.session import start_spark, stop_spark
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.program import running_program
from tests.integration.standalone import Standalone, standalone
from tests.integration.threads import running_threads

IDS_A_ROW = 100
BACK_SECONDS = 90.0
ROUTES_ON_SECONDS = 0.5
"""The JVM of a router that was killed may route for so long: a packet that comes then says nothing of the next one."""
BATCH_SECONDS = 15
"""Batches are shorter than usual, so that several end while somebody waits."""
SLOTS = 2
ROUTER = (
    "from streaming_jobs.router_job import lane; lane.REALTIME_BATCH_SECONDS = %d; from gateway.cli import main; main()"
)


NODES = [number.to_bytes(16, "big") for number in range(1, 17)]


def main() -> int:
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="meshgate-restart-") as name, ExitStack() as stack:
        mesh = TestMesh(Path(name), {"kafka": {"partitions": 1, "embedded_bytes": None}})
        subprocess.run([sys.executable, "-m", "gateway.cli", "init", "--dir", name], check=True, capture_output=True)
        mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp", "lease_seconds": 3_600}])
        stack.enter_context(_program(mesh, "kafka"))
        config = load(mesh.config_file)
        ensure_topics(config, seconds=120)
        begun = time.monotonic()
        _seed(config, int(asked.millions * 1_000_000))
        print(f"{asked.millions:g} million ids stored in {time.monotonic() - begun:.0f} s", flush=True)
        cluster = None
        if asked.executors:
            cluster = stack.enter_context(standalone(Path(name, "cluster"), "one", "two", slots=SLOTS))
        stack.enter_context(_program(mesh, "edge"))
        _measure(mesh, config, cluster, asked)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.restart", description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, default=10.0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--ends", type=int, default=6, help="batches to wait for")
    parser.add_argument("--rate", type=float, default=100.0, help="packets a second")
    parser.add_argument("--executors", action="store_true")
    return parser.parse_args()


def _program(mesh: TestMesh, verb: str) -> AbstractContextManager[None]:
    command = [sys.executable, "-m", "gateway.cli", verb, "-c", str(mesh.config_file)]
    return running_program(command, mesh.folder / f"{verb}.log")


# -- the ids that are known ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeedPass:
    """Makes a row with new ids of each record, as the router's pass does; its rows' times go on evenly up to now."""

    begins_at: int
    seconds: int
    rows: int

    def __call__(self, _: bytes, __: int, offset: int) -> PlainRow:
        second = self.begins_at + offset * self.seconds // self.rows
        nodes = [NODES[number % len(NODES)] for number in range(IDS_A_ROW)]
        return second, offset, pack_row([(node + os.urandom(PACKET_KEY_BYTES - 16), second) for node in nodes]), []


def _seed(config: Config, count: int) -> None:
    rows, kept = count // IDS_A_ROW, keep_seconds(config)
    producer = Producer({**config.kafka.native_settings(), "linger.ms": 50})
    for _ in range(rows):
        producer.produce(config.topic("raw"), b"", partition=0)
        if len(producer) > 50_000:
            producer.poll(0.1)
    producer.flush()
    checkpoint = Path(config.router.checkpoint)
    checkpoint.mkdir(parents=True, exist_ok=True)
    claim(checkpoint)
    spark = start_spark("seed", "local[1]", ONE_TASK)
    try:
        pass_ = SeedPass(int(time.time()) - kept, kept, rows)
        writer = route(read_raw(spark, config, 0), pass_, "seed", kept).writeStream.format("kafka").outputMode("update")
        writer = writer.options(**sink_options(config)).option("checkpointLocation", str(checkpoint / lane_name(0)))
        writer.trigger(availableNow=True).start().awaitTermination()
    finally:
        stop_spark(spark)


# -- the router ------------------------------------------------------------------------------------------------------


@dataclass
class Load:
    """A device that sends packets to itself, and notes when each was sent and came."""

    device: Device
    rate: float
    sent: dict[bytes, float] = field(default_factory=dict)
    came: list[tuple[float, float]] = field(default_factory=list)
    """When packets came, and when they had been sent."""
    _over: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            packet = self.device.packet("restart.load")
            self.sent[packet] = time.monotonic()
            self.device.send(packet)
            due += 1 / self.rate

    def receive(self) -> None:
        while not self._over.is_set():
            if (packet := self.device.receive(0.5)) is not None:
                self.came.append((time.monotonic(), self.sent[packet]))

    def first_after(self, moment: float) -> float | None:
        """Returns when the first packet came that was sent after this moment."""
        return next((came for came, sent in self.came[-10_000:] if sent > moment), None)

    def longest_between(self, begin: float, end: float) -> float:
        """Returns the most seconds that a packet took that was sent between two moments."""
        return max((came - sent for came, sent in list(self.came) if begin <= sent < end), default=0.0)

    def running(self) -> AbstractContextManager[None]:
        return running_threads(self._over, self.send, self.receive)


@contextmanager
def _router(mesh: TestMesh, options: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", ROUTER % BATCH_SECONDS, "router", "-c", str(mesh.config_file), *options]
    with (mesh.folder / "router.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def _measure(mesh: TestMesh, config: Config, cluster: Standalone | None, asked: argparse.Namespace) -> None:
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    options = ["--master", cluster.master, "--conf", "spark.executor.memory=1g"] if cluster else []
    with closing(device), ExitStack() as stack:
        router = stack.enter_context(_router(mesh, options))
        begun = time.monotonic()
        try:
            device.subscribe("restart.>", seconds=BACK_SECONDS)
        except AssertionError:
            raise AssertionError((mesh.folder / "router.log").read_text()[-3000:]) from None
        load = Load(device, asked.rate)
        with load.running():
            print(f"first start: {_back(mesh, load, begun):.1f} s", flush=True)
            for _ in range(asked.kills):
                time.sleep(BATCH_SECONDS / 2)
                executors = set(cluster.executors().values()) if cluster else set()
                killed = time.monotonic()
                since = killed + ROUTES_ON_SECONDS
                router.send_signal(signal.SIGKILL)
                router.wait()
                router = stack.enter_context(_router(mesh, options))
                if executors:  # they route for a moment more
                    wait_until(lambda pids=executors: not any(map(_is_running, pids)), "they have ended", BACK_SECONDS)
                    since = time.monotonic()
                back = since - killed + _back(mesh, load, since)
                print(f"from the kill to a packet sent after it: {back:.1f} s", flush=True)
            if cluster:
                _lose_executors(mesh, load, cluster)
            _ends(load, Path(config.router.checkpoint) / lane_name(0), asked.ends)


def _is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _lose_executors(mesh: TestMesh, load: Load, cluster: Standalone) -> None:
    """Kills one executor after the other. The lane runs on one of them, and goes on on the other."""
    for name in cluster.executors():
        time.sleep(BATCH_SECONDS / 2)
        killed = time.monotonic()
        os.kill(cluster.executors()[name], signal.SIGKILL)
        print(
            f"from the loss of executor {name} to a packet sent after it: {_back(mesh, load, killed):.1f} s", flush=True
        )


def _back(mesh: TestMesh, load: Load, since: float) -> float:
    while (came := load.first_after(since)) is None:
        if time.monotonic() > since + BACK_SECONDS:
            raise AssertionError((mesh.folder / "router.log").read_text()[-3000:])
        time.sleep(0.02)
    return came - since


def _ends(load: Load, lane: Path, count: int) -> None:
    _next_commit(lane)  # of a batch that began with what had piled up
    for _ in range(count):
        begun = time.monotonic()
        _next_commit(lane)
        print(f"a batch's end: {load.longest_between(begun, time.monotonic() - 1.0) * 1000:.0f} ms", flush=True)


def _next_commit(lane: Path) -> None:
    """Waits until a batch has been committed, and the next one runs."""
    commit = last_commit(lane)
    while last_commit(lane) == commit:
        time.sleep(0.1)
    time.sleep(2.0)


if __name__ == "__main__":
    sys.exit(main())

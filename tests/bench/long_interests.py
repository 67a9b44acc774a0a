"""How long a worker of the router that starts takes to read a long `interests`:

    python -m tests.bench.long_interests                   three million records of a thousand nodes
    python -m tests.bench.long_interests --records 300000
    python -m tests.bench.long_interests --uncompacted     Kafka keeps every one of them

A scratch broker, and in its topic what renewals of leases would leave if each were written. The reader reads all of it
at once; a router starts, and a frame of each raw partition goes through it; and the reader reads once more after Kafka
has had time to compact it. Ends with 1 if either of the first two takes longer than LIMIT_SECONDS.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from gateway.config import Config, load
from gateway.core.errors import SetupError
from gateway.core.ids import FramePosition
from gateway.inspect.live.mesh_parts import MeshPart, router_part
from gateway.interests import Interest, InterestTable, Verb
from gateway.kafka.interest_reader import InterestReader
from gateway.kafka.topics import ensure_topics
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.program import running_program

LIMIT_SECONDS = 30.0
NODES = 1_000
QUEUE_RECORDS = 50_000
START_SECONDS = 180.0
DAY_MS = 86_400_000


def main() -> int:
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="meshgate-long-interests-") as folder, _broker(Path(folder)) as mesh:
        config = load(mesh.config_file)
        if asked.uncompacted:
            _keep_every_record(config)
        _write(config, asked.records)
        taken = max(_read(config, f"{asked.records:,} records"), _start(mesh))
        time.sleep(asked.wait)
        _read(config, f"{asked.wait:.0f} s later")
        print(f"{_size_mib(Path(folder), config):.0f} MiB are on disk", flush=True)
    return 0 if taken < LIMIT_SECONDS else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.long_interests", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--uncompacted", action="store_true", help="the topic may not be compacted for a day")
    parser.add_argument("--wait", type=float, default=30.0, help="seconds for Kafka to compact")
    return parser.parse_args()


def _keep_every_record(config: Config) -> None:
    lag = ConfigEntry("min.compaction.lag.ms", str(DAY_MS), incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, config.topic("interests"), incremental_configs=[lag])
    admin = AdminClient(config.kafka.native_settings())
    for done in admin.incremental_alter_configs([topic]).values():
        done.result()


@contextmanager
def _broker(folder: Path) -> Iterator[TestMesh]:
    mesh = TestMesh(folder, {"kafka": {"embedded_bytes": None}})
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    mesh.keys_file.write_text("nodes: {}\n")
    command = [sys.executable, "-m", "gateway.cli", "kafka", "-c", str(mesh.config_file)]
    with running_program(command, folder / "kafka.log"):
        ensure_topics(load(mesh.config_file), seconds=120)
        yield mesh


def _size_mib(folder: Path, config: Config) -> float:
    files = folder.rglob(f"{config.topic('interests')}-*/*.log")
    return sum(file.stat().st_size for file in files) / (1 << 20)


def _write(config: Config, records: int) -> None:
    producer = Producer({**config.kafka.native_settings(), "compression.type": "zstd", "linger.ms": 50})
    topic = config.topic("interests")
    for interest in _renewals(records):
        producer.produce(topic, interest.to_json(), interest.key.to_bytes())
        if len(producer) > QUEUE_RECORDS:
            producer.poll(0.1)
    producer.flush()


def _renewals(records: int) -> Iterator[Interest]:
    first = [
        Interest(
            subscriber=f"emm:00112233-4455-6677-8899-{node:012x}", verb=Verb.SUBSCRIBE, pattern=f"plant.line{node}.>",
            edge="edge-0", epoch=7, address=f"10.0.0.9:{node}", protocol="emm", listener="devices", durable=True,
            position=FramePosition(0, 0, 0),
        )
        for node in range(NODES)
    ]  # fmt: skip
    now = int(time.time() * 1e6)
    for number in range(records):
        at = now + number
        yield replace(
            first[number % NODES], position=FramePosition(0, number, 0), expires_at=at, kept_until=at + 90_000_000
        )


def _read(config: Config, what: str) -> float:
    table, began = InterestTable(), time.monotonic()
    with closing(InterestReader(config)) as reader:
        reader.catch_up(table)
    taken = time.monotonic() - began
    print(f"{what}: {len(table):,} interests after {taken:.1f} s", flush=True)
    return taken


def _start(mesh: TestMesh) -> float:
    """Starts a router with all of its workers. It is ready when a frame of each partition has gone through it."""
    router = router_part(load(mesh.config_file))
    with ExitStack() as stack:
        began = time.monotonic()
        for part in ("edge", "router"):
            command = [sys.executable, "-m", "gateway.cli", part, "-c", str(mesh.config_file)]
            stack.enter_context(running_program(command, mesh.folder / f"{part}.log"))
        wait_until(lambda: _is_ready(router), "the router is ready", START_SECONDS)
        taken = time.monotonic() - began
    print(f"a router that starts has let a first frame of each partition through after {taken:.1f} s", flush=True)
    return taken


def _is_ready(router: MeshPart) -> bool:
    try:
        return bool(router.readiness()["status"] == "ok")
    except SetupError:
        return False


if __name__ == "__main__":
    sys.exit(main())

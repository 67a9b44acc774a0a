"""How long `meshgate trace` takes on a long log:

    python -m tests.bench.long_log                        ten million frames, as 10,000 a second leave them
    python -m tests.bench.long_log --frames 1000000

A scratch broker, and in its topics what edges and a router write: signed packets, 200 to a raw record, each an event
with one receiver and an outcome. Only they themselves do not run: the log would take them a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from uuid import uuid4

from kafka import KafkaProducer

from gateway.config import Config, load
from gateway.core.event import Auth, Kind
from gateway.kafka.topics import ensure_topics
from gateway.records import cloud_event, deliveries, egress_codec
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group, Position
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from tests.events import bare_event
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh
from tests.integration.program import running_program

PER_RECORD = 200
PARTITIONS = 2
EPOCH = 7
DIFFERENT_RECORDS = 100
"""Their packets come again and again, which nobody notices here."""
TRACED = 5
SUBJECT = "temp.cellar"


def main() -> int:
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="meshgate-long-log-") as folder, _broker(Path(folder)) as mesh:
        records = asked.frames // PER_RECORD // PARTITIONS
        begun = time.monotonic()
        with ProcessPoolExecutor(PARTITIONS) as pool:
            writing = [pool.submit(_write, mesh.config_file, one, records, asked.rate) for one in range(PARTITIONS)]
            for one in writing:
                one.result()
        print(f"{records * PARTITIONS * PER_RECORD:,} frames written in {time.monotonic() - begun:.0f} s", flush=True)
        _trace(mesh, records)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.long_log", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="frames a second, by the records' times")
    return parser.parse_args()


@contextmanager
def _broker(folder: Path) -> Iterator[TestMesh]:
    mesh = TestMesh(folder, {"kafka": {"embedded_bytes": None}})
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    mesh.keys_file.write_text("nodes: {}\n")
    command = [sys.executable, "-m", "gateway.cli", "kafka", "-c", str(mesh.config_file)]
    with running_program(command, folder / "kafka.log"):
        ensure_topics(load(mesh.config_file), seconds=120)
        yield mesh


def _write(config_file: Path, partition: int, records: int, rate: int) -> None:
    """One raw partition, and all that follows from it."""
    config, log = load(config_file), Partition(partition)
    since_ms = int(time.time() * 1000) - records * PARTITIONS * PER_RECORD * 1000 // rate
    with closing(KafkaProducer(**config.kafka.client_settings(), batch_size=1 << 20, linger_ms=50)) as producer:
        for offset in range(records):
            at_ms = since_ms + offset * PARTITIONS * PER_RECORD * 1000 // rate
            log.write(producer, config, offset, at_ms)


class Partition:
    """What stands there, made once where it is always the same."""

    def __init__(self, number: int) -> None:
        self._number = number
        device = Device(port=1)
        self._containers = [self._container(device) for _ in range(DIFFERENT_RECORDS)]
        self._packet = device.packet(SUBJECT, "21.5")
        event = bare_event(
            subject=SUBJECT,
            protocol="emm",
            listener="devices",
            edge="edge-0",
            peer="10.0.0.1:9",
            node=device.node,
            message_id=uuid4().hex[:8],
            received_at=int(time.time() * 1e6),
            content_type="text/plain",
            body=b"21.5",
            auth=Auth.HMAC,
            key_id="00000001",
        )
        self._key, self._body = device.node.encode(), event.body
        self._headers = [(name, text.encode()) for name, text in cloud_event.attributes(event, "test").items()]
        self._groups = (Group("emm", self._packet, addresses=(("devices", "10.0.0.2:9"),)),)
        device.close()

    def _container(self, device: Device) -> bytes:
        source = FrameSource("emm", "devices", "edge-0", EPOCH, 0, "10.0.0.1:9")
        builder = ContainerBuilder("edge-0", EPOCH)
        for _ in range(PER_RECORD):
            packet = device.packet(SUBJECT, "21.5")
            builder.add_run(source, int(time.time() * 1e6), packet, (len(packet),))
        return builder.build()

    def write(self, producer: KafkaProducer, config: Config, offset: int, at_ms: int) -> None:
        def send(topic: str, value: bytes, to: int, **more: object) -> None:
            producer.send(config.topic(topic), value, partition=to, timestamp_ms=at_ms, **more)  # type: ignore[arg-type]

        send("raw", self._containers[offset % DIFFERENT_RECORDS], self._number)
        outcomes = []
        for index in range(PER_RECORD):
            place = Position(self._number, offset, index)
            name = place.event_id
            headers = [("ce_id", name.encode()), *self._headers[1:]]
            send("events", self._body, self._number, key=self._key, headers=headers)
            delivery = Deliver(place, EPOCH, Kind.EVENT, SUBJECT, "emm", at_ms * 1000, self._groups)
            send("egress", egress_codec.encode(delivery), 0)
            outcomes.append(DeliveryOutcome(name, "devices 10.0.0.2:9", "written", "", at_ms * 1000))
        send("deliveries", deliveries.encode("edge-0", outcomes), 0)


def _trace(mesh: TestMesh, records: int) -> None:
    """The first line is what it takes to look for nothing: to start, and to ask the broker."""
    chance = random.Random(0)
    _timed(mesh, f"0-{records + 1}-0")
    for _ in range(TRACED):
        _timed(mesh, f"{chance.randrange(PARTITIONS)}-{chance.randrange(records)}-{chance.randrange(PER_RECORD)}")


def _timed(mesh: TestMesh, event_id: str) -> None:
    """CPU time too: on a machine that does other work as well it is what can be compared."""
    begun, before = time.monotonic(), getrusage(RUSAGE_CHILDREN)
    said = mesh.command("trace", event_id, "--output", "json")
    seconds, after = time.monotonic() - begun, getrusage(RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = [one["outcome"] for one in json.loads(said.stdout)["deliveries"]] if not said.returncode else said.stderr
    print(f"{event_id:<20} {seconds:5.2f} s, {busy:5.2f} s of CPU  {found}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

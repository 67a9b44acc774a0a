"""Records of the raw log are gone before they were routed: refused, and then accepted in so many words."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from gateway.cli.console import Exit
from gateway.config import load
from streaming_jobs.router_job.checkpoint import committed_offsets
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until

pytestmark = pytest.mark.timeout(900)  # Spark starts four times
UNROUTED = 5


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[TestMesh]:
    """In micro-batches: they commit as they go, so there is something to be behind of."""
    one = TestMesh(tmp_path / "mesh", {"router": {"mode": "microbatch"}})
    one.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    one.start()
    try:
        yield one
    finally:
        if one.process is not None and one.process.poll() is None:
            one.stop()


def committed(mesh: TestMesh) -> dict[int, int]:
    return committed_offsets(mesh.folder / "state" / "router" / "lane-0")


@contextmanager
def broker_alone(mesh: TestMesh) -> Iterator[KafkaAdminClient]:
    line = [sys.executable, "-m", "gateway.cli", "kafka", "-c", str(mesh.config_file)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as broker:
        try:
            wait_until(lambda: _answers(mesh.ports["kafka"]), "the broker listens", 60)
            with closing(KafkaAdminClient(**load(mesh.config_file).kafka.client_settings())) as admin:
                yield admin
        finally:
            broker.terminate()
            broker.wait(60)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def lose_what_was_not_routed(mesh: TestMesh) -> str:
    """Deletes records as a retention does that is shorter than an outage, and returns what a router then says."""
    config = load(mesh.config_file)
    partitions = [TopicPartition(config.topic("raw"), number) for number in committed(mesh)]
    with broker_alone(mesh) as admin:
        with closing(KafkaProducer(**config.kafka.client_settings())) as producer:
            for partition in partitions * UNROUTED:
                producer.send(partition.topic, b"of an edge", partition=partition.partition)
            producer.flush()
        with closing(KafkaConsumer(**config.kafka.client_settings())) as consumer:
            admin.delete_records(consumer.end_offsets(partitions))
        routed = mesh.command("router", seconds=180)
        assert routed.returncode == Exit.UNAVAILABLE
        return routed.stderr


def test_a_gap_ends_the_router_with_its_offsets_until_it_is_told_to_go_on(mesh: TestMesh) -> None:
    wait_until(lambda: committed(mesh), "a batch is committed", 60)
    assert mesh.stop() == 0
    said = lose_what_was_not_routed(mesh)
    assert "cannot go on where it was: offsets" in said
    assert "--accept-loss" in said

    mesh.start("--accept-loss")
    with closing(Device(mesh.ports["devices"]).trusted_by(mesh)) as device:
        device.subscribe("after.>")
        after = device.packet("after.loss")
        device.send(after)
        assert device.receive() == after
    assert "lane-0 goes on over a gap: offsets" in _router_log(mesh)
    wait_until(lambda: "no further gap is accepted" in _router_log(mesh), "it is strict again")
    audited = json.loads(mesh.command("audit", "--output", "json", seconds=240).stdout)
    assert audited["lost"] == 0


def _router_log(mesh: TestMesh) -> str:
    return (mesh.folder / "state" / "logs" / "router.log").read_text()

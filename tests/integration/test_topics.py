"""`meshgate topics` against a real broker, as a deployment uses it: made, grown, and never shrunk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gateway.cli.console import Exit
from gateway.kafka.topics import TopicState
from tests.integration.mesh import TestMesh


class Deployment:
    """A second mesh on the broker of the tests' own, which has topics and nothing else."""

    def __init__(self, mesh: TestMesh, folder: Path) -> None:
        self.path = folder / "meshgate.yaml"
        self.kafka: dict[str, object] = {"bootstrap": f"127.0.0.1:{mesh.ports['kafka']}"}
        self.wants(partitions=2)

    def wants(self, partitions: int, egress: int = 4, interests: int = 1) -> None:
        topics = {"egress": {"partitions": egress}, "interests": {"partitions": interests}}
        kafka = {**self.kafka, "partitions": partitions, "topics": topics}
        self.path.write_text(yaml.safe_dump({"mesh": self.path.parent.name.replace("_", "-"), "kafka": kafka}))

    def topics(self, verb: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "gateway.cli", "topics", verb, "-c", str(self.path), "--output", "json"]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)

    def partitions(self) -> dict[str, int]:
        rows = json.loads(self.topics("describe").stdout)
        return {row["topic"].rpartition(".")[2]: row["partitions"] for row in rows}


@pytest.fixture
def deployment(mesh: TestMesh, tmp_path: Path) -> Deployment:
    return Deployment(mesh, tmp_path)


def test_copies_that_the_brokers_cannot_keep_are_refused_with_the_setting_at_fault(deployment: Deployment) -> None:
    deployment.kafka["replication"] = 3
    deployment.wants(partitions=1)
    created = deployment.topics("create")
    assert created.returncode == Exit.UNAVAILABLE
    assert created.stderr.splitlines()[-1].startswith("meshgate: kafka.replication: 3 copies of")


def test_topics_are_created_once_and_grown_to_what_the_configuration_wants(deployment: Deployment) -> None:
    assert deployment.topics("describe").returncode == Exit.FAILURE  # nothing is there yet
    assert deployment.topics("create").returncode == Exit.OK
    assert deployment.topics("create").returncode == Exit.OK
    assert deployment.partitions() == {
        "raw": 2, "events": 2, "rejected": 2, "egress": 4, "deliveries": 2, "interests": 1,
    }  # fmt: skip

    deployment.wants(partitions=5, egress=6)
    assert deployment.topics("describe").returncode == Exit.FAILURE
    grown = deployment.topics("grow")
    assert grown.returncode == Exit.OK, grown.stderr
    assert any(line.endswith(".raw: 2 -> 5 partitions") for line in grown.stderr.splitlines())
    assert "meshgate: " not in grown.stderr  # as errors begin
    assert deployment.topics("describe").returncode == Exit.OK
    assert deployment.partitions() == {
        "raw": 5, "events": 5, "rejected": 5, "egress": 6, "deliveries": 5, "interests": 1,
    }  # fmt: skip


def test_topics_that_do_not_fit_are_not_taken_for_created(deployment: Deployment) -> None:
    deployment.topics("create")
    deployment.wants(partitions=3)
    refused = deployment.topics("create")
    assert refused.returncode == Exit.UNAVAILABLE
    assert "set it to 2, or grow the topic" in refused.stderr


def test_a_raw_topic_never_shrinks(deployment: Deployment) -> None:
    deployment.topics("create")
    deployment.wants(partitions=1)
    refused = deployment.topics("grow")
    assert refused.returncode == Exit.UNAVAILABLE
    assert "has 2 partitions and can only grow" in refused.stderr
    assert deployment.partitions()["raw"] == 2


def test_a_compacted_topic_never_grows(deployment: Deployment) -> None:
    deployment.topics("create")
    deployment.wants(partitions=2, interests=3)
    assert deployment.topics("grow").returncode == Exit.OK
    assert deployment.partitions()["interests"] == 1
    assert deployment.topics("describe").returncode == Exit.OK


def test_growing_also_creates_what_is_missing(deployment: Deployment) -> None:
    assert deployment.topics("grow").returncode == Exit.OK
    assert deployment.partitions()["raw"] == 2


@pytest.mark.parametrize(
    ("topic", "partitions", "fits"),
    [("m.raw", 4, True), ("m.raw", 3, False), ("m.raw", 5, False), ("m.egress", 5, True), ("m.egress", 3, False)],
)
def test_only_the_raw_topic_must_fit_exactly(topic: str, partitions: int, fits: bool) -> None:
    assert TopicState(topic, partitions, 4, 1).fits is fits

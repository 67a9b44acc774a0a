"""The loss equation over a real mesh: it balances after traffic of every kind, and notices each kind of loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition
from pyspark.sql import SparkSession

from gateway.config import Config, load
from gateway.config.topics import TopicName
from gateway.core.clock import now_us
from gateway.core.event import Kind
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records import deliveries, egress_codec
from gateway.records.egress import Deliver
from gateway.records.egress_codec import EgressBuilder
from streaming_jobs.audit.job import Audit
from streaming_jobs.reprocess.log_range import choose_stretch
from streaming_jobs.reprocess.spark_tables import start_batch
from streaming_jobs.spark.session import stop_spark
from tests.integration.copied import copied
from tests.integration.mesh import TestMesh
from tests.integration.traffic import Traffic, traffic


@pytest.fixture(scope="module")
def began() -> datetime:
    """Returns a time as exact as Kafka's are: what stands before it is other tests'."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1_000 * 1_000)


@pytest.fixture(scope="module")
def told(mesh: TestMesh, began: datetime) -> Iterator[Traffic]:
    one = traffic(mesh)
    yield one
    one.close()


@pytest.fixture(scope="module")
def batch(mesh: TestMesh) -> Iterator[SparkSession]:
    session = start_batch(load(mesh.config_file), None)
    yield session
    stop_spark(session)


def audited(config: Config, batch: SparkSession) -> dict[str, Any]:
    with History(config) as history:
        stretch = choose_stretch(history, config, None, None, now_us())
        return Audit(config, batch, history, stretch).run(lambda _line: None, 0).to_json()


@pytest.fixture
def mounted(mesh: TestMesh, tmp_path: Path) -> Path:
    """The configuration as a kubelet mounts it: a link into a folder that changes, to which its names are relative."""
    config = yaml.safe_load(mesh.config_file.read_text())
    config["trust"] = "../trust/keys.yaml"
    path = tmp_path / "config" / "meshgate.yaml"
    (path.parent / "..data").mkdir(parents=True)
    (path.parent / "..data" / path.name).write_text(yaml.safe_dump(config))
    path.symlink_to(Path("..data", path.name))
    (tmp_path / "trust").mkdir()
    (tmp_path / "trust" / "keys.yaml").symlink_to(load(mesh.config_file).trust)
    return path


def test_it_balances_after_traffic_of_every_kind(mesh: TestMesh, told: Traffic, began: datetime, mounted: Path) -> None:
    run = mesh.command("audit", "-c", str(mounted), "--from", began.isoformat(), "--output", "json", seconds=240)
    said = json.loads(run.stdout)
    assert (said["balanced"], run.returncode) == (True, 0), run.stdout
    terms = ("events", "rejected", "duplicates", "control", "again", "lost")
    assert said["frames"] == sum(said[term] for term in terms)
    assert said["lost"] == 0
    assert said["duplicates"] >= 2  # clients send again what is not acknowledged soon enough
    reasons = said["rejected_by_reason"]
    assert reasons.pop("unknown_key") >= 1  # the device's own first hello may come before the mesh has read its key
    assert reasons == {"no_responder": 1, "unsupported_version": 1}
    assert said["undeliverable"] >= 1
    assert said["confirmed"] >= 1
    assert said["edges"] is None


def test_with_the_edge_s_own_counts_the_first_line_balances_too(mesh: TestMesh, told: Traffic) -> None:
    run = mesh.command("audit", "--edge", seconds=240)
    assert run.stdout.endswith("balanced\n"), run.stdout + run.stderr
    assert "received by edge-0" in run.stdout


class Damage:
    """Takes one record of each kind away, or changes it, and remembers of which event. What stood there before the
    traffic is other tests'."""

    def __init__(self, began: datetime) -> None:
        self._since = began.timestamp() * 1_000_000
        self.done: dict[str, str] = {}

    def __call__(self, name: TopicName, record: TopicRecord) -> Iterable[TopicRecord]:
        if record.logged_at < self._since:
            return [record]
        damage = {"events": self._event, "rejected": self._rejection, "egress": self._egress,
                  "deliveries": self._delivery}  # fmt: skip
        return damage[name](record) if name in damage else [record]

    def _event(self, record: TopicRecord) -> Iterable[TopicRecord]:
        subject, event_id = record.header("ce_subject"), record.header("ce_id")
        if subject == "traffic.second":
            self.done["lost_event"] = event_id
        elif subject == "traffic.first":
            self.done["altered_event"] = event_id
            yield record._replace(value=b"another body")
        elif subject == "across.event":
            partition, offset, _ = event_id.split("-")
            self.done["unknown_event"] = f"{partition}-{offset}-9999"
            stranger = tuple(
                (name, self.done["unknown_event"].encode() if name == "ce_id" else value)
                for name, value in record.headers
            )
            yield from (record, record._replace(headers=stranger))
        else:
            yield record

    def _rejection(self, record: TopicRecord) -> Iterable[TopicRecord]:
        reason, event_id = record.header("reason"), record.header("event_id")
        if reason == "no_responder":
            self.done["lost_rejection"] = event_id
        elif reason == "unsupported_version":
            self.done["altered_rejection"] = event_id
            yield record._replace(value=b"\x09 no packet at alL")
        else:
            yield record

    def _egress(self, record: TopicRecord) -> Iterable[TopicRecord]:
        written = egress_codec.decode(record.value or b"")
        builder = EgressBuilder(written.partition, written.offset, len(record.value or b"") * 2)
        for entry in written:
            if not isinstance(entry, Deliver):
                builder.add(entry)
            elif entry.kind is Kind.RESPONSE and entry.subject == "Traffic.sum":
                self.done["unsent_delivery"] = entry.event_id
            elif entry.kind is Kind.REQUEST:
                self.done["unknown_delivery"] = entry.event_id
            else:
                if entry.subject == "across.event":
                    self.done["lost_delivery"] = entry.event_id
                builder.add(entry)
        yield from (record._replace(value=value) for value in builder.finish())

    def _delivery(self, record: TopicRecord) -> Iterable[TopicRecord]:
        written = deliveries.decode(record.value or b"")
        gone = {self.done["unsent_delivery"], self.done["lost_delivery"]}
        left = [row for row in written if row.event_id not in gone]
        yield record._replace(value=deliveries.encode(written.edge, left))


def test_each_kind_of_loss_is_noticed_and_named(
    mesh: TestMesh, told: Traffic, began: datetime, batch: SparkSession, tmp_path: Path
) -> None:
    damage = Damage(began)
    said = audited(copied(mesh, "damaged", tmp_path, damage), batch)
    assert not said["balanced"]
    found = {fault["kind"]: fault["event_id"] for fault in said["faults"]}
    assert found == damage.done
    assert said["fault_counts"] == dict.fromkeys(sorted(damage.done), 1)
    assert said["lost"] == 2


def test_what_the_router_repeats_after_a_crash_unbalances_nothing(
    mesh: TestMesh, told: Traffic, batch: SparkSession, tmp_path: Path
) -> None:
    def twice(name: TopicName, record: TopicRecord) -> Iterable[TopicRecord]:
        return [record] if name == "raw" else [record, record]

    said = audited(copied(mesh, "repeated", tmp_path, twice), batch)
    assert said["balanced"], said["faults"]


@pytest.mark.parametrize("topic", ["events", "deliveries", "egress"])
def test_what_a_topic_has_lost_to_its_bound_in_bytes_is_no_loss_of_the_mesh(
    topic: TopicName, mesh: TestMesh, told: Traffic, batch: SparkSession, tmp_path: Path
) -> None:
    config = copied(mesh, f"thinned-{topic}", tmp_path)
    with History(config) as history:
        middle = {number: span.start + (span.size + 1) // 2 for number, span in history.bounds(topic).items()}
    admin = KafkaAdminClient(**config.kafka.client_settings())
    admin.delete_records({TopicPartition(config.topic(topic), number): at for number, at in middle.items()})
    admin.close()
    said = audited(config, batch)
    assert said["balanced"], said["faults"]
    assert (said["from"] is not None) == (topic != "egress")


def test_a_truncated_raw_log_shows_its_gap(mesh: TestMesh, told: Traffic, batch: SparkSession, tmp_path: Path) -> None:
    config = copied(mesh, "truncated", tmp_path)
    with History(config) as history:
        ends = {number: span.end for number, span in history.bounds("raw").items()}
    admin = KafkaAdminClient(**config.kafka.client_settings())
    admin.delete_records({TopicPartition(config.topic("raw"), number): end for number, end in ends.items()})
    admin.close()
    said = audited(config, batch)
    assert not said["balanced"]
    assert {gap["partition"]: gap["last"] for gap in said["gaps"]} == {number: end - 1 for number, end in ends.items()}

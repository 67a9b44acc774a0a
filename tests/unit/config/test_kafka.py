"""Kafka: how clients reach it, and what topics keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer as Native

from gateway.config.topics import TOPICS, TopicName
from tests.unit.config.reading import expect_fault, read

SASL = "{protocol: SASL_SSL, mechanism: SCRAM-SHA-256, username: mesh, password: 'p\"w\\'}"


def kafka(keys: str) -> str:
    return f"mesh: demo\nkafka: {{{keys}}}"


class TestWhereItIs:
    def test_clients_of_the_embedded_broker_go_where_it_listens(self) -> None:
        settings = read(kafka("listen: '127.0.0.1:19092'")).kafka
        assert settings.is_embedded
        assert settings.client_settings()["bootstrap_servers"] == ["127.0.0.1:19092"]
        assert settings.spark_options()["kafka.bootstrap.servers"] == "127.0.0.1:19092"

    @pytest.mark.parametrize(("listen", "found"), [("0.0.0.0:9092", "127.0.0.1:9092"), ("[::]:9092", "[::1]:9092")])
    def test_a_broker_that_listens_everywhere_is_found_on_this_machine(self, listen: str, found: str) -> None:
        assert read(kafka(f"listen: '{listen}'")).kafka.bootstrap_servers == found

    def test_a_broker_whose_port_the_system_would_choose_could_not_be_found(self) -> None:
        expect_fault(kafka("listen: '127.0.0.1:0'"), "kafka.listen", "expected a port from 1 to 65535", line=2)

    def test_clients_of_a_cluster_begin_with_any_of_its_brokers(self) -> None:
        settings = read(kafka("bootstrap: 'a:9092,b:9093'")).kafka
        assert not settings.is_embedded
        assert settings.client_settings()["bootstrap_servers"] == ["a:9092", "b:9093"]

    @pytest.mark.parametrize("bootstrap", ["a", "a:9092,", "a:b", "embeded"])
    def test_anything_but_brokers_is_refused(self, bootstrap: str) -> None:
        expect_fault(kafka(f"bootstrap: '{bootstrap}'"), "kafka.bootstrap", "expected host:port", line=2)


class TestSecurity:
    def test_without_any_nothing_is_proven(self) -> None:
        security = read("mesh: demo").kafka.security
        assert security.client_settings() == {"security_protocol": "PLAINTEXT"}
        assert security.spark_options() == {"kafka.security.protocol": "PLAINTEXT"}

    def test_a_password_reaches_the_python_clients(self) -> None:
        settings = read(kafka(f"security: {SASL}")).kafka.client_settings()
        assert settings["security_protocol"] == "SASL_SSL"
        assert settings["sasl_mechanism"] == "SCRAM-SHA-256"
        assert (settings["sasl_plain_username"], settings["sasl_plain_password"]) == ("mesh", 'p"w\\')

    def test_a_password_reaches_the_edges_client_which_knows_every_setting(self) -> None:
        settings = read(kafka(f"security: {SASL}")).kafka.native_settings()
        assert (settings["sasl.username"], settings["sasl.password"]) == ("mesh", 'p"w\\')
        Native(settings).close()

    def test_a_password_reaches_spark_quoted_as_jaas_wants_it(self) -> None:
        options = read(kafka(f"security: {SASL}")).kafka.spark_options()
        assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-256"
        assert options["kafka.sasl.jaas.config"] == (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="mesh" password="p\\"w\\\\";'
        )

    def test_plain_passwords_have_a_module_of_their_own(self) -> None:
        text = kafka("security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u, password: p}")
        assert "plain.PlainLoginModule" in read(text).kafka.spark_options()["kafka.sasl.jaas.config"]

    def test_certificates_go_to_python_as_paths_and_to_java_as_text(self, tmp_path: Path) -> None:
        for name in ("ca", "cert", "key"):
            (tmp_path / f"{name}.pem").write_text(f"the {name}")
        text = kafka("security: {protocol: SSL, ca: ca.pem, cert: cert.pem, key: key.pem, key_password: k}")
        security = read(text, path=tmp_path / "meshgate.yaml").kafka.security
        settings, options = security.client_settings(), security.spark_options()
        assert settings["ssl_cafile"] == str(tmp_path / "ca.pem")
        assert settings["ssl_password"] == "k"
        native = security.native_settings()
        assert native["ssl.key.location"] == str(tmp_path / "key.pem")
        assert native["ssl.key.password"] == "k"
        assert options["kafka.ssl.truststore.certificates"] == "the ca"
        assert options["kafka.ssl.keystore.certificate.chain"] == "the cert"
        assert options["kafka.ssl.keystore.key"] == "the key"
        assert options["kafka.ssl.key.password"] == "k"

    def test_a_certificate_for_another_name_may_be_taken(self) -> None:
        security = read(kafka("security: {protocol: SSL, check_hostname: false}")).kafka.security
        assert security.client_settings()["ssl_check_hostname"] is False
        assert security.native_settings()["ssl.endpoint.identification.algorithm"] == "none"
        assert security.spark_options()["kafka.ssl.endpoint.identification.algorithm"] == ""

    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ("protocol: SASL_SSL, username: u", "needs username and password"),
            ("protocol: SASL_PLAINTEXT, password: p", "needs username and password"),
            ("protocol: SSL, cert: c.pem", "belong together"),
            ("protocol: SSL, key: k.pem", "belong together"),
        ],
    )
    def test_half_a_proof_is_refused(self, keys: str, expected: str) -> None:
        expect_fault(kafka(f"security: {{{keys}}}"), "kafka.security", expected, line=2)


class TestTopics:
    @pytest.mark.parametrize(
        ("name", "hours"), [("raw", 168), ("events", 168), ("rejected", 720), ("egress", 24), ("deliveries", 168)]
    )
    def test_each_topic_is_kept_as_long_as_it_is_needed(self, name: TopicName, hours: int) -> None:
        settings = read("mesh: demo").kafka.topic(name).settings
        assert settings["cleanup.policy"] == "delete"
        assert settings["retention.ms"] == str(hours * 3_600_000)

    def test_a_compacted_topic_has_the_same_partitions_however_many_the_raw_log_has(self) -> None:
        few, many = (read(f"mesh: demo\nkafka: {{partitions: {count}}}").kafka for count in (2, 64))
        assert few.topic("interests").partitions == many.topic("interests").partitions

    def test_interests_are_compacted_soon(self) -> None:
        settings = read("mesh: demo").kafka.topic("interests").settings
        assert settings["cleanup.policy"] == "compact"
        assert "retention.ms" not in settings
        assert settings["segment.ms"] == "600000"
        assert settings["segment.bytes"] == str(16 * 2**20)
        assert settings["min.cleanable.dirty.ratio"] == "0.1"
        assert settings["delete.retention.ms"] == "3600000"

    def test_only_a_compacted_topic_is_told_when_to_be(self) -> None:
        assert not {"segment.ms", "min.cleanable.dirty.ratio"} & read("mesh: demo").kafka.topic("raw").settings.keys()

    @pytest.mark.parametrize("name", ["interests", "rejected"])
    def test_a_segment_holds_the_largest_record(self, name: TopicName) -> None:
        settings = read(kafka("message_bytes: 33554432, embedded_bytes: 1000000000")).kafka.topic(name).settings
        assert settings["segment.bytes"] == "33554432"

    def test_a_broker_alone_keeps_one_copy_and_a_cluster_three(self) -> None:
        alone, cluster = read("mesh: demo").kafka.topic("raw"), read(kafka("bootstrap: 'a:1'")).kafka.topic("raw")
        assert (alone.replication, alone.settings["min.insync.replicas"]) == (1, "1")
        assert (cluster.replication, cluster.settings["min.insync.replicas"]) == (3, "2")

    @pytest.mark.parametrize(("brokers", "copies", "least"), [(1, 1, "1"), (2, 2, "2"), (3, 3, "2"), (9, 3, "2")])
    def test_no_more_copies_than_brokers_unless_it_is_said(self, brokers: int, copies: int, least: str) -> None:
        plan = read(kafka("bootstrap: 'a:1'")).kafka.topic("raw", brokers)
        assert (plan.replication, plan.settings["min.insync.replicas"]) == (copies, least)
        assert read(kafka("bootstrap: 'a:1', replication: 5")).kafka.topic("raw", brokers).replication == 5

    def test_what_is_said_for_a_topic_wins_over_what_is_said_for_all(self) -> None:
        text = kafka(
            "bootstrap: 'a:1', replication: 5, topics: {raw: {retention_hours: 0.5, retention_bytes: 1000, "
            "segment_bytes: 100, replication: 2}, egress: {partitions: 9}}"
        )
        raw, events, egress = (read(text).kafka.topic(name) for name in ("raw", "events", "egress"))
        assert (raw.replication, events.replication) == (2, 5)
        assert (raw.partitions, egress.partitions) == (4, 9)
        assert raw.settings["retention.ms"] == "1800000"
        assert (raw.settings["retention.bytes"], raw.settings["segment.bytes"]) == ("1000", "100")

    def test_the_embedded_broker_s_topics_together_stay_within_its_bytes(self) -> None:
        settings = read(kafka("embedded_bytes: 1000000000, partitions: 3, topics: {egress: {partitions: 7}}")).kafka
        plans = [settings.topic(name) for name, topic in TOPICS.items() if not topic.is_compacted]
        assert sum(plan.partitions * int(plan.settings["retention.bytes"]) for plan in plans) <= 1_000_000_000
        for plan in plans:
            assert 2**20 <= int(plan.settings["segment.bytes"]) <= int(plan.settings["retention.bytes"])

    def test_a_cluster_s_topics_together_stay_within_its_bytes_counted_once(self) -> None:
        settings = read(kafka("bootstrap: 'a:1', partitions: 3")).kafka
        assert settings.cluster_bytes == 80 * 2**30
        plans = [settings.topic(name) for name, topic in TOPICS.items() if not topic.is_compacted]
        total = sum(plan.partitions * int(plan.settings["retention.bytes"]) for plan in plans)
        assert 0.99 * 80 * 2**30 < total <= 80 * 2**30

    def test_what_is_said_for_one_topic_wins_over_its_share(self) -> None:
        raw = read(kafka("topics: {raw: {retention_bytes: 5000000}}")).kafka.topic("raw")
        assert raw.settings["retention.bytes"] == "5000000"

    @pytest.mark.parametrize("keys", ["bootstrap: 'a:1', cluster_bytes: null", "embedded_bytes: null"])
    def test_who_asks_for_no_bound_has_none(self, keys: str) -> None:
        assert "retention.bytes" not in read(kafka(keys)).kafka.topic("raw").settings

    def test_no_more_copies_are_waited_for_than_there_are(self) -> None:
        plan = read(kafka("bootstrap: 'a:1', replication: 1")).kafka.topic("raw")
        assert plan.settings["min.insync.replicas"] == "1"

    def test_a_topic_nobody_knows_is_a_fault(self) -> None:
        expect_fault(kafka("topics: {raws: {}}"), "kafka.topics.raws", "'raw'")

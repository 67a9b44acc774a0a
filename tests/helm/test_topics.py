"""Topics and the Kafka they are in: a job, Strimzi's resources, or nothing of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.cli.topics import command
from gateway.config.topics import TOPICS, Part, TopicName
from tests.helm.chart import Object, find, of_kind, render
from tests.helm.test_configuration import RULES, loaded, user_of

STRIMZI = {"bootstrap": "", "manageTopics": "strimzi", "strimzi": {"enabled": True}}


def kafka_topics(objects: list[Object]) -> dict[str, Object]:
    return {each["metadata"]["name"].rpartition(".")[2]: each for each in of_kind(objects, "KafkaTopic")}


class TestJob:
    def test_it_runs_before_anything_else_of_a_release_changes(self) -> None:
        objects = render()
        job, config = find(objects, "Job"), find(objects, "ConfigMap", "-topics")
        for each in (job, config):
            assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        weights = [int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in (config, job)]
        assert weights == sorted(weights)

    def test_it_needs_nothing_that_is_not_there_yet(self) -> None:
        spec = find(render(), "Job")["spec"]["template"]["spec"]
        assert "serviceAccountName" not in spec
        (config,) = [each for each in spec["volumes"] if each["name"] == "config"]
        assert config["configMap"]["name"].endswith("-topics")  # its own, of the new configuration

    def test_it_grows_topics_with_a_verb_that_there_is(self) -> None:
        (container,) = find(render(), "Job")["spec"]["template"]["spec"]["containers"]
        assert container["args"][:2] == ["topics", "grow"]
        assert "grow" in command.commands

    def test_it_gives_up_in_the_end(self) -> None:
        spec = find(render(topicsJob={"deadlineSeconds": 60, "backoffLimit": 2}), "Job")["spec"]
        assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (60, 2)

    @pytest.mark.parametrize("kafka", [STRIMZI, {"manageTopics": "none"}], ids=["strimzi", "none"])
    def test_where_others_make_the_topics_there_is_none(self, kafka: dict[str, Any]) -> None:
        assert of_kind(render(kafka=kafka), "Job") == []


class TestKafkaTopics:
    SETTINGS = {  # noqa: RUF012
        "partitions": 6,
        "replication": 3,
        "messageBytes": 2_097_152,
        "topics": {
            "raw": {"retention_hours": 24.5, "retention_bytes": 53_687_091_200, "segment_bytes": 1_073_741_824},
            "egress": {"partitions": 32, "min_insync_replicas": 1},
            "deliveries": {"replication": 1},
            "rejected": {"retention_hours": 1},
        },
    }

    @pytest.mark.parametrize("name", TOPICS)
    @pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["defaults", "settings"])
    def test_they_are_what_the_package_would_make(
        self, name: TopicName, settings: dict[str, Any], tmp_path: Path
    ) -> None:
        objects = render(kafka={**STRIMZI, **settings})
        wanted = loaded(objects, tmp_path).kafka.topic(name)
        topic = kafka_topics(objects)[name]["spec"]
        assert (topic["partitions"], topic["replicas"]) == (wanted.partitions, wanted.replication)
        assert topic["config"] == wanted.settings

    def test_there_is_one_for_each_topic_of_the_package(self) -> None:
        assert kafka_topics(render(kafka=STRIMZI)).keys() == set(TOPICS)

    def test_the_name_in_kafka_is_the_meshs_own_even_where_kubernetes_has_no_capitals(self) -> None:
        raw = kafka_topics(render(mesh="Plant-7", kafka=STRIMZI))["raw"]
        assert (raw["metadata"]["name"], raw["spec"]["topicName"]) == ("plant-7.raw", "Plant-7.raw")

    def test_they_outlive_the_release(self) -> None:
        for topic in kafka_topics(render(kafka=STRIMZI)).values():
            assert topic["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}

    def test_they_may_belong_to_a_kafka_that_is_there_already(self) -> None:
        objects = render(kafka={"manageTopics": "strimzi", "strimzi": {"cluster": "shared"}})
        assert kafka_topics(objects)["raw"]["metadata"]["labels"]["strimzi.io/cluster"] == "shared"
        assert of_kind(objects, "Kafka") == []


def restricted(kafka: Object) -> bool:
    """All that the operator makes of it. (Brokers write to their volumes as the image's group, which is 0.)"""
    brokers, operators = (kafka["spec"][part]["template"] for part in ("kafka", "entityOperator"))
    pod = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    return bool(
        brokers == {"pod": {"securityContext": {**pod, "fsGroup": 0}}, "kafkaContainer": container}
        and operators
        == {"pod": {"securityContext": pod}, "topicOperatorContainer": container, "userOperatorContainer": container}
    )


class TestKafka:
    def test_it_is_off_unless_asked_for(self) -> None:
        assert not {each["kind"] for each in render()} & {"Kafka", "KafkaNodePool", "KafkaUser"}

    def test_it_makes_no_topic_by_a_misspelt_name_and_keeps_what_is_acknowledged(self) -> None:
        config = find(render(kafka=STRIMZI), "Kafka")["spec"]["kafka"]["config"]
        assert config["auto.create.topics.enable"] is False
        assert (config["default.replication.factor"], config["min.insync.replicas"]) == (3, 2)
        assert config["message.max.bytes"] == config["replica.fetch.max.bytes"] == 4_194_304

    def test_its_pods_keep_to_pod_security_restricted_whatever_the_operators_default(self) -> None:
        assert restricted(find(render(kafka=STRIMZI), "Kafka"))

    def test_its_brokers_belong_to_it_and_outlive_the_release(self) -> None:
        objects = render(kafka=STRIMZI)
        cluster, pool = find(objects, "Kafka"), find(objects, "KafkaNodePool")
        assert pool["metadata"]["labels"]["strimzi.io/cluster"] == cluster["metadata"]["name"]
        assert pool["spec"]["replicas"] == 3
        assert pool["spec"]["storage"]["volumes"][0]["deleteClaim"] is False
        for each in (cluster, pool):
            assert each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}

    @pytest.mark.parametrize(
        ("part", "groups"), [("edge", "plant.edge."), ("router", "spark-kafka-"), ("rules", "spark-kafka-")]
    )
    def test_a_parts_user_writes_what_the_part_does_and_no_more(self, part: Part, groups: str) -> None:
        user = find(render(mesh="plant", kafka=STRIMZI, rules=RULES), "KafkaUser", f"-{part}")
        acls = user["spec"]["authorization"]["acls"]
        may = {(each["resource"]["type"], each["resource"]["name"]): each["operations"] for each in acls}
        written = {name.removeprefix("plant.") for (kind, name), what in may.items() if what == ["Write"]}
        assert written == {name for name, topic in TOPICS.items() if part in topic.writers}
        assert may.pop(("topic", "plant.")) == may.pop(("group", groups)) == ["Read", "Describe"]
        assert all(what == ["Write"] for what in may.values())

    def test_nobody_makes_or_removes_topics_but_their_operator(self) -> None:
        for user in of_kind(render(kafka=STRIMZI, rules=RULES), "KafkaUser"):
            operations = {one for each in user["spec"]["authorization"]["acls"] for one in each["operations"]}
            assert operations <= {"Read", "Write", "Describe"}

    @pytest.mark.parametrize("part", ["edge", "router", "rules"])
    def test_pods_prove_themselves_with_their_own_users_password(self, part: str) -> None:
        objects = render(kafka=STRIMZI, rules=RULES)
        pod = find(objects, "StatefulSet", f"-{part}")["spec"]["template"]["spec"]
        secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
        user = find(objects, "KafkaUser", f"-{part}")["metadata"]["name"]
        assert user_of(objects, "StatefulSet", part) == (user, user)
        assert secrets["kafka-ca"] == f"{find(objects, 'Kafka')['metadata']['name']}-cluster-ca-cert"

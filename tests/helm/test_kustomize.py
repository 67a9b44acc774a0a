"""Tests what a cluster has once: every base and overlay is built, validated, and fits the chart that uses it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from gateway.config import parse
from gateway.local.broker import Broker
from tests.helm.chart import CHART, Object, find, merged, of_kind, pod_specs, render, render_exactly
from tests.helm.schemas import faults
from tests.helm.test_topics import restricted
from tests.helm.tools import helm_3, helm_4, kubectl

K8S = CHART.parents[1] / "k8s"
FOLDERS = sorted(path.parent for path in K8S.rglob("kustomization.yaml"))
SHARED, TEST_MESH = K8S / "overlays" / "shared-kafka", K8S / "overlays" / "test-mesh"


@cache
def built(folder: Path) -> list[Object]:
    """Builds as `kubectl apply -k` does: that takes no options."""
    command = [str(kubectl()), "kustomize", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return list(yaml.safe_load_all(run.stdout))


def values_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "values.yaml").read_text())
    return found


@pytest.fixture(scope="module")
def test_mesh() -> list[Object]:
    return built(TEST_MESH)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_base_and_overlay_has_only_what_kubernetes_and_its_operators_know(folder: Path) -> None:
    objects = built(folder)
    assert objects
    assert [fault for each in objects for fault in faults(each)] == []


def test_a_namespace_of_the_mesh_keeps_its_pods_to_restricted() -> None:
    for folder in (SHARED, K8S / "base" / "namespace", K8S / "base" / "kafka"):
        for namespace in of_kind(built(folder), "Namespace"):
            assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_nothing_of_a_namespaces_own_takes_connections_unless_it_says_so() -> None:
    policy = find(built(K8S / "base" / "namespace"), "NetworkPolicy")
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


class TestSharedKafka:
    def as_the_chart_would(self) -> list[Object]:
        managed = {"kafka": {"manageTopics": "strimzi", "strimzi": {"cluster": "meshes"}}}
        return render_exactly(merged(values_of(SHARED), managed))

    def test_its_topics_are_those_of_the_mesh_that_uses_it(self) -> None:
        wanted = {each["metadata"]["name"]: each["spec"] for each in of_kind(self.as_the_chart_would(), "KafkaTopic")}
        found = {each["metadata"]["name"]: each["spec"] for each in of_kind(built(SHARED), "KafkaTopic")}
        assert found.keys() == wanted.keys()
        for name, spec in found.items():
            assert spec == {key: value for key, value in wanted[name].items() if key != "topicName"}

    def test_all_of_it_belongs_to_the_one_kafka(self) -> None:
        objects = built(SHARED)
        cluster = find(objects, "Kafka")["metadata"]
        for kind in ("KafkaTopic", "KafkaUser", "KafkaNodePool"):
            for each in of_kind(objects, kind):
                assert each["metadata"]["labels"]["strimzi.io/cluster"] == cluster["name"], each["metadata"]["name"]
                assert each["metadata"]["namespace"] == cluster["namespace"]

    def test_the_mesh_reaches_it_by_the_name_and_user_that_it_has(self) -> None:
        kafka, objects = values_of(SHARED)["kafka"], built(SHARED)
        cluster = find(objects, "Kafka")
        host = f"{cluster['metadata']['name']}-kafka-bootstrap.{cluster['metadata']['namespace']}.svc"
        assert kafka["bootstrap"] == f"{host}:{cluster['spec']['kafka']['listeners'][0]['port']}"
        users = {each["metadata"]["name"] for each in of_kind(objects, "KafkaUser")}
        assert {each["username"] for each in kafka["security"]["users"].values()} == users

    @pytest.mark.parametrize("part", ["edge", "router", "rules"])
    def test_its_users_may_do_what_the_chart_lets_them(self, part: str) -> None:
        strimzi = {"bootstrap": "", "manageTopics": "strimzi", "strimzi": {"enabled": True}}
        rules = [{"name": "all", "sql": "SELECT * FROM events"}]
        wanted = find(render(mesh="demo", kafka=strimzi, rules=rules), "KafkaUser", f"-{part}")
        assert find(built(SHARED), "KafkaUser", f"-{part}")["spec"] == wanted["spec"]

    def test_its_records_are_as_large_as_the_meshs(self) -> None:
        config = find(built(SHARED), "Kafka")["spec"]["kafka"]["config"]
        for topic in of_kind(built(SHARED), "KafkaTopic"):
            assert int(topic["spec"]["config"]["max.message.bytes"]) == config["message.max.bytes"]

    def test_its_pods_are_let_into_its_namespace(self) -> None:
        assert restricted(find(built(SHARED), "Kafka"))

    def test_its_certificates_are_signed_by_the_authority_beside_it(self) -> None:
        objects = built(SHARED)
        issuer = find(objects, "Issuer", "mesh")
        (authority,) = of_kind(objects, "Certificate")
        assert issuer["metadata"]["name"] == values_of(SHARED)["certManager"]["issuer"]["name"]
        assert issuer["spec"]["ca"]["secretName"] == authority["spec"]["secretName"]


class TestTestMesh:
    def test_it_is_a_whole_mesh_in_one_namespace(self, test_mesh: list[Object]) -> None:
        sets = [each["metadata"]["name"] for each in of_kind(test_mesh, "StatefulSet")]
        assert sorted(sets) == ["kafka", "test-edge", "test-router"]
        namespaces = {each["metadata"].get("namespace") for each in test_mesh if each["kind"] != "Namespace"}
        assert namespaces == {find(test_mesh, "Namespace")["metadata"]["name"]}

    def test_all_of_it_is_valid_and_restricted(self, test_mesh: list[Object]) -> None:
        assert [fault for each in test_mesh for fault in faults(each)] == []
        for name, spec in pod_specs(test_mesh):
            assert spec["securityContext"]["runAsNonRoot"] is True, name
            for container in spec["containers"]:
                assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
                assert container["image"].endswith(f":{__version__}"), name

    @pytest.mark.parametrize("helm", [helm_3, helm_4], ids=["helm-3", "helm-4"])
    def test_it_is_what_the_chart_makes(self, helm: Callable[[], Path]) -> None:
        command = [str(helm()), "template", "test", str(CHART), "-n", "mesh", "--no-hooks"]
        command += ["--values", str(TEST_MESH / "values.yaml")]
        made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        old = (TEST_MESH / "mesh.yaml").read_text()
        assert as_set(old) == as_set(made), f"run {' '.join(command)} > {TEST_MESH / 'mesh.yaml'}"

    def test_hooks_and_tests_are_left_to_helm(self, test_mesh: list[Object]) -> None:
        assert not [each for each in test_mesh if each["kind"] in ("Job", "Pod")]

    def test_the_broker_is_where_the_mesh_looks_for_it(self, test_mesh: list[Object], tmp_path: Path) -> None:
        (name,) = {
            volume["configMap"]["name"]
            for volume in find(test_mesh, "StatefulSet", "kafka")["spec"]["template"]["spec"]["volumes"]
            if "configMap" in volume
        }
        text = find(test_mesh, "ConfigMap", name)["data"]["meshgate.yaml"]
        broker = Broker.of(parse(text, tmp_path / "meshgate.yaml"))
        assert str(broker.listen) == values_of(TEST_MESH)["kafka"]["bootstrap"]
        pod, service = broker.listen.host.split(".")
        assert pod == f"{find(test_mesh, 'StatefulSet', 'kafka')['metadata']['name']}-0"
        assert find(test_mesh, "Service", "kafka")["metadata"]["name"] == service

    def test_pods_find_the_trust_store_where_its_page_puts_it(self, test_mesh: list[Object]) -> None:
        said = (TEST_MESH / "kustomization.yaml").read_text()
        trust = values_of(TEST_MESH)["trust"]["secret"]
        assert f"create secret generic {trust} --from-file=keys.yaml=mesh/keys.yaml" in said
        assert f"meshgate init --dir mesh --mesh {values_of(TEST_MESH)['mesh']} " in said
        volumes = find(test_mesh, "StatefulSet", "-router")["spec"]["template"]["spec"]["volumes"]
        assert trust in [each.get("secret", {}).get("secretName") for each in volumes]


def as_set(text: str) -> list[str]:
    """The objects, in an order of our own: each Helm has another."""
    return sorted(map(repr, filter(None, yaml.safe_load_all(text))))


def test_keys_are_never_in_the_repository() -> None:
    assert "/mesh/" in (K8S.parent / ".gitignore").read_text().splitlines()
    assert not [each for folder in FOLDERS for each in of_kind(built(folder), "Secret")]

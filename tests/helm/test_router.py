"""The router: one pod, a driver with executors, or an operator's application; and what it keeps."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.helm.chart import Object, find, of_kind, render

SHARED = {"checkpoint": {"accessMode": "ReadWriteMany"}}
EXECUTORS = {"executors": {"count": 3, "taskSlots": 4, "memory": "3g", "cpu": "2"}, **SHARED}


def router(objects: list[Object]) -> Object:
    spec: Object = find(objects, "StatefulSet", "-router")["spec"]
    return spec


def container(objects: list[Object], at: int = 0) -> Object:
    found: Object = router(objects)["template"]["spec"]["containers"][at]
    return found


def spark(arguments: list[str]) -> dict[str, str]:
    """The settings among the arguments of the command."""
    pairs = [value.partition("=") for option, value in pairwise(arguments) if option == "--conf"]
    return {name: value for name, _, value in pairs}


def master(arguments: list[str]) -> str | None:
    return arguments[arguments.index("--master") + 1] if "--master" in arguments else None


class TestPod:
    def test_there_is_one_router_and_never_two_at_once(self) -> None:
        assert router(render())["replicas"] == 1

    def test_one_that_never_gets_ready_is_replaced_by_what_mends_it(self) -> None:
        assert router(render())["podManagementPolicy"] == "Parallel"  # in order, an update waits until it is ready

    def test_spark_has_the_task_slots_that_the_package_counts_itself(self) -> None:
        assert master(container(render())["args"]) is None

    def test_or_those_that_it_is_given(self) -> None:
        assert master(container(render(router={"taskSlots": 7}))["args"]) == "local[7]"

    def test_its_state_outlives_it_and_the_release(self) -> None:
        objects = render(router={"checkpoint": {"size": "50Gi", "storageClass": "fast"}})
        claim = find(objects, "PersistentVolumeClaim")
        assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert claim["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "50Gi"}},
        }
        (volume,) = [each for each in router(objects)["template"]["spec"]["volumes"] if each["name"] == "checkpoint"]
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        (mount,) = [each for each in container(objects)["volumeMounts"] if each["name"] == "checkpoint"]
        assert mount["mountPath"] == "/var/lib/meshgate"  # above router.checkpoint

    def test_a_claim_that_is_there_already_is_used(self) -> None:
        objects = render(router={"checkpoint": {"existingClaim": "mine"}})
        assert of_kind(objects, "PersistentVolumeClaim") == []
        claims = [
            each["persistentVolumeClaim"]["claimName"]
            for each in router(objects)["template"]["spec"]["volumes"]
            if "persistentVolumeClaim" in each
        ]
        assert claims == ["mine"]

    def test_a_standby_is_a_second_pod_on_the_same_node(self) -> None:
        zones = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "kafka"}}}
        given = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [zones]}, "nodeAffinity": {}}
        objects = render(router={"standby": True, "affinity": given})
        spec = router(objects)
        assert spec["replicas"] == 2
        assert spec["template"]["spec"]["affinity"]["nodeAffinity"] == {}
        near, together = spec["template"]["spec"]["affinity"]["podAffinity"].popitem()[1]
        assert near == zones
        assert together == {"topologyKey": "kubernetes.io/hostname", "labelSelector": spec["selector"]}
        assert "standby: true" in find(objects, "ConfigMap", "demo-meshgate")["data"]["meshgate.yaml"]

    def test_without_executors_it_has_no_rights(self) -> None:
        objects = render()
        assert of_kind(objects, "Role") == []
        assert router(objects)["template"]["spec"]["automountServiceAccountToken"] is False

    def test_somebody_must_take_it_off_its_node_knowingly(self) -> None:
        objects = render(router={"podDisruptionBudget": {"enabled": True}})
        assert find(objects, "PodDisruptionBudget", "-router")["spec"]["maxUnavailable"] == 0

    def test_settings_of_sparks_own_are_passed_on(self) -> None:
        given = {"spark.cleaner.periodicGC.interval": "10min", "spark.task.maxFailures": 8}
        assert spark(container(render(router={"spark": given}))["args"]) == {
            "spark.cleaner.periodicGC.interval": "10min",
            "spark.task.maxFailures": "8",
        }


class TestExecutors:
    def test_the_driver_asks_kubernetes_for_them(self) -> None:
        arguments = container(render(router=EXECUTORS))["args"]
        settings = spark(arguments)
        assert master(arguments) == "k8s://https://kubernetes.default.svc:443"
        assert settings["spark.executor.instances"] == "3"
        assert settings["spark.executor.cores"] == "4"
        assert settings["spark.executor.memory"] == "3g"
        assert settings["spark.kubernetes.allocation.batch.delay"] == "200ms"  # it is part of the time without one
        assert settings["spark.authenticate"] == settings["spark.network.crypto.enabled"] == "true"
        assert settings["spark.kubernetes.namespace"] == "mesh"
        assert settings["spark.kubernetes.container.image"].startswith("meshgate/router:")

    def test_they_find_it_by_its_pods_name_at_ports_of_its_service(self) -> None:
        objects = render(router=EXECUTORS)
        settings = spark(container(objects)["args"])
        service = find(objects, "Service", "-router")
        name = service["metadata"]["name"]
        assert settings["spark.driver.host"] == f"{name}-0.{name}.mesh.svc"
        assert settings["spark.kubernetes.executor.useDriverPodIP"] == "false"  # else it is told the address it binds
        assert settings["spark.kubernetes.driver.pod.name"] == f"{name}-0"  # they end when it does
        assert service["spec"]["publishNotReadyAddresses"] is True
        ports = {each["name"]: str(each["port"]) for each in service["spec"]["ports"]}
        assert ports["driver"] == settings["spark.driver.port"]
        assert ports["block-manager"] == settings["spark.driver.blockManager.port"]

    def test_they_are_made_after_a_template_that_the_driver_can_read(self) -> None:
        objects = render(router=EXECUTORS)
        path = spark(container(objects)["args"])["spark.kubernetes.executor.podTemplateFile"]
        template = yaml.safe_load(find(objects, "ConfigMap", "-executor")["data"]["executor.yaml"])
        assert path == "/etc/meshgate/spark/executor.yaml"
        assert template["kind"] == "Pod"
        assert template["spec"]["automountServiceAccountToken"] is False
        settings = spark(container(objects)["args"])
        names = [each["name"] for each in template["spec"]["containers"]]
        assert settings["spark.kubernetes.executor.podTemplateContainerName"] in names

    def test_they_read_and_keep_what_the_driver_does(self) -> None:
        objects = render(router=EXECUTORS, secretFiles=[{"name": "objects", "secret": "objects"}])
        template = yaml.safe_load(find(objects, "ConfigMap", "-executor")["data"]["executor.yaml"])
        own = {mount["mountPath"] for mount in template["spec"]["containers"][0]["volumeMounts"]}
        drivers = {mount["mountPath"] for mount in container(objects)["volumeMounts"]}
        assert drivers - own == {"/etc/meshgate/spark"}

    def test_the_driver_may_make_pods_and_read_no_secret(self) -> None:
        objects = render(router=EXECUTORS)
        (rule,) = find(objects, "Role")["rules"]
        assert rule["resources"] == ["pods", "configmaps", "services", "persistentvolumeclaims"]
        binding = find(objects, "RoleBinding")
        pod = router(objects)["template"]["spec"]
        assert [each["name"] for each in binding["subjects"]] == [pod["serviceAccountName"]]
        assert pod["automountServiceAccountToken"] is True
        assert not of_kind(objects, "ClusterRole")

    @pytest.mark.parametrize("kind", ["statefulset", "sparkapplication"])
    def test_kubernetes_holds_the_driver_to_executors_with_the_secrets_of_their_template(self, kind: str) -> None:
        secret = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "by-environment", "key": "x"}}}
        files = [{"name": "own", "secret": "by-file", "parts": ["router"]}, {"name": "all", "secret": "of-edges"}]
        objects = render(router={"kind": kind, **EXECUTORS}, secretFiles=files, env=[secret])
        policy, binding = (find(objects, f"ValidatingAdmissionPolicy{suffix}") for suffix in ("", "Binding"))
        said = json.dumps(policy["spec"])
        assert "system:serviceaccount:mesh:demo-meshgate-router'" in said
        assert said.count("in ['by-environment','by-file','mesh-trust']") == 2
        assert "of-edges" not in said
        assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}

    @pytest.mark.parametrize("router", [{}, {**SHARED, "executors": {"count": 2, "admissionPolicy": False}}])
    def test_without_executors_or_the_right_to_make_a_policy_there_is_none(self, router: dict[str, Any]) -> None:
        assert not of_kind(render(router=router), "ValidatingAdmissionPolicy")

    def test_what_the_values_say_of_spark_wins(self) -> None:
        settings = spark(container(render(router={**EXECUTORS, "spark": {"spark.executor.memory": "9g"}}))["args"])
        assert settings["spark.executor.memory"] == "9g"


class TestSparkApplication:
    @pytest.fixture
    def objects(self) -> list[Object]:
        return render(router={"kind": "sparkapplication", **EXECUTORS})

    def test_it_replaces_the_set(self, objects: list[Object]) -> None:
        assert [each["metadata"]["name"] for each in of_kind(objects, "StatefulSet")] == ["demo-meshgate-edge"]
        assert of_kind(render(), "SparkApplication") == []

    def test_it_runs_the_same_command_from_the_same_image(self, objects: list[Object]) -> None:
        spec = find(objects, "SparkApplication")["spec"]
        assert spec["pyFiles"] == "local:///opt/meshgate/submit.py"
        assert spec["driverArgs"][:3] == ["router", "-c", "/etc/meshgate/config/meshgate.yaml"]
        assert "--master" not in spec["driverArgs"]  # the operator's business

    def test_it_starts_again_however_it_ended(self, objects: list[Object]) -> None:
        tolerations = find(objects, "SparkApplication")["spec"]["applicationTolerations"]
        assert tolerations["restartConfig"]["restartPolicy"] == "Always"

    def test_its_pods_are_found_like_the_sets(self, objects: list[Object]) -> None:
        spec = find(objects, "SparkApplication")["spec"]
        labels = spec["driverSpec"]["podTemplateSpec"]["metadata"]["labels"]
        assert find(objects, "Service", "-router")["spec"]["selector"].items() <= labels.items()
        conf: dict[str, Any] = spec["sparkConf"]
        for part, container_name in (("driver", "router"), ("executor", "executor")):
            named = conf[f"spark.kubernetes.{part}.podTemplateContainerName"]
            containers = spec[f"{part}Spec"]["podTemplateSpec"]["spec"]["containers"]
            assert [each["name"] for each in containers] == [named] == [container_name]

    def test_all_its_settings_are_text(self, objects: list[Object]) -> None:
        conf = find(objects, "SparkApplication")["spec"]["sparkConf"]
        assert {type(value) for value in conf.values()} == {str}


def test_the_router_is_asked_for_its_health() -> None:
    one = container(render(router={"managementPort": 9700}))
    for probe, path in (("startup", "started"), ("readiness", "ready"), ("liveness", "live")):
        assert one[f"{probe}Probe"]["httpGet"] == {"path": f"/healthz/{path}", "port": 9700}

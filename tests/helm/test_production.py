"""values-production.yaml: every value is explained, the release passes every linter's rule, and each rule can fail."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.helm import linting
from tests.helm.chart import CHART, Object, configuration, find, merged, module_at, of_kind, render, render_exactly
from tests.helm.linting import RULES, Rule
from tests.helm.schemas import NEWEST, OLDEST, faults
from tests.helm.test_values import SCHEMA, VALUES, keys_in, schema_faults

TEXT = (CHART / "values-production.yaml").read_text()
PRODUCTION: dict[str, Any] = yaml.safe_load(TEXT)
NOT_FOR_DEFAULTS = {
    "image_is_asked_for",  # a test cluster has its images loaded
    "several_pods_are_apart",  # one of a single node must be able to hold them
    "edges_survive_a_loss_during_an_update",  # two are the least
    "pods_have_a_priority",  # a class must exist
}

DECIDED_ONCE = {"mesh", "kafka.replication", "kafka.minInsyncReplicas", "kafka.security.mechanism"}
"""Defaults that stand there all the same: nobody should have them without knowing."""


@pytest.fixture(scope="module")
def release() -> list[Object]:
    return render_exactly(PRODUCTION)


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    return module_at(CHART.parent / "readme.py")


class TestValues:
    def test_every_value_says_why_it_is_there(self, readme: ModuleType) -> None:
        values = readme.values(TEXT)
        assert len(values) > 40
        assert [value.path for value in values if not " ".join(value.comment).rstrip().endswith(".")] == []

    def test_each_of_them_differs_from_the_default(self, readme: ModuleType) -> None:
        paths = [value.path for value in readme.values(TEXT)]
        assert {path for path in paths if at(VALUES, path) == at(PRODUCTION, path)} == DECIDED_ONCE

    def test_the_schema_takes_them(self) -> None:
        assert schema_faults(merged(VALUES, PRODUCTION)) == []
        assert all(there <= known for _, there, known in keys_in(PRODUCTION, SCHEMA))

    @pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
    def test_kubernetes_takes_what_the_chart_makes_of_them(self, release: list[Object], kubernetes: str) -> None:
        assert [fault for each in release for fault in faults(each, kubernetes)] == []

    def test_strangers_may_do_nothing(self, release: list[Object]) -> None:
        first = configuration(release)["permissions"][0]
        assert first["nodes"] == ["anon:*"]
        assert [first[verb] for verb in ("publish", "subscribe", "serve")] == [{"allow": []}] * 3

    def test_nothing_crosses_the_network_in_clear_but_signed_packets(self, release: list[Object]) -> None:
        clear = [each for each in PRODUCTION["listeners"] if each["transport"] in ("tcp", "ws", "udp")]
        assert [each["protocol"] for each in clear] == ["emm"]
        assert configuration(release)["kafka"]["security"]["protocol"] == "SASL_SSL"

    def test_each_part_is_a_user_of_its_own(self) -> None:
        users = [each["username"] for each in PRODUCTION["kafka"]["security"]["users"].values()]
        assert len(set(users)) == len(users) == 4

    def test_every_listener_with_tls_gets_a_certificate(self, release: list[Object]) -> None:
        secured = [each["name"] for each in PRODUCTION["listeners"] if each["transport"] in ("tls", "wss", "quic")]
        assert len(of_kind(release, "Certificate")) == len(secured) == 2


def at(values: dict[str, Any], path: str) -> Any:
    here: Any = values
    for key in path.split("."):
        here = here.get(key) if isinstance(here, dict) else None
    return here


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_release_for_production_passes_every_rule(rule: Rule, release: list[Object]) -> None:
    assert list(rule(release)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_defaults_pass_all_but_what_a_small_cluster_cannot_have(rule: Rule) -> None:
    assert bool(list(rule(render()))) is (rule.__name__ in NOT_FOR_DEFAULTS)


Change = Callable[[list[Object]], Any]


def edge_set(objects: list[Object]) -> Object:
    spec: Object = find(objects, "StatefulSet", "-edge")["spec"]
    return spec


def edge(objects: list[Object]) -> Object:
    pod: Object = edge_set(objects)["template"]["spec"]
    return pod


def container(objects: list[Object]) -> Object:
    first: Object = edge(objects)["containers"][0]
    return first


def budget(objects: list[Object]) -> Object:
    spec: Object = find(objects, "PodDisruptionBudget", "-edge")["spec"]
    return spec


BROKEN: dict[str, tuple[Change, ...]] = {
    "image_is_pinned": (
        lambda objects: container(objects).update(image="registry:5000/meshgate/edge"),
        lambda objects: container(objects).update(image="meshgate/edge:latest"),
    ),
    "image_is_asked_for": (lambda objects: container(objects).update(imagePullPolicy="IfNotPresent"),),
    "probes_are_there": (
        lambda objects: container(objects).pop("livenessProbe"),
        lambda objects: container(objects).pop("readinessProbe"),
    ),
    "resources_are_bounded": (
        lambda objects: container(objects).pop("resources"),
        lambda objects: container(objects)["resources"]["limits"].pop("memory"),
        lambda objects: container(objects)["resources"]["requests"].pop("cpu"),
    ),
    "containers_are_confined": (
        lambda objects: container(objects).pop("securityContext"),
        lambda objects: container(objects)["securityContext"].update(allowPrivilegeEscalation=True),
        lambda objects: container(objects)["securityContext"].update(readOnlyRootFilesystem=False),
        lambda objects: container(objects)["securityContext"].update(privileged=True),
        lambda objects: container(objects)["securityContext"].update(
            capabilities={"drop": ["ALL"], "add": ["NET_RAW"]}
        ),
    ),
    "nobody_is_root": (
        lambda objects: edge(objects).pop("securityContext"),
        lambda objects: edge(objects)["securityContext"].update(runAsUser=0),
    ),
    "the_node_stays_closed": (
        lambda objects: edge(objects).update(hostNetwork=True),
        lambda objects: edge(objects)["volumes"].append({"name": "node", "hostPath": {"path": "/"}}),
        lambda objects: container(objects)["ports"][0].update(hostPort=9640),
    ),
    "no_pod_may_speak_to_kubernetes": (
        lambda objects: edge(objects).pop("automountServiceAccountToken"),
        lambda objects: objects.append({"kind": "ClusterRole", "metadata": {"name": "all"}}),
    ),
    "secrets_come_from_secrets": (
        lambda objects: container(objects)["env"].append({"name": "KAFKA_PASSWORD", "value": "secret"}),
    ),
    "several_pods_are_apart": (lambda objects: edge(objects).pop("topologySpreadConstraints"),),
    "no_drain_ends_all": (
        lambda objects: budget(objects).update(maxUnavailable=3),
        lambda objects: budget(objects).update(maxUnavailable=0),
        lambda objects: objects.remove(find(objects, "PodDisruptionBudget", "-edge")),
    ),
    "edges_survive_a_loss_during_an_update": (lambda objects: edge_set(objects).update(replicas=2),),
    "every_pod_is_policed": (lambda objects: objects.remove(find(objects, "NetworkPolicy", "-edge")),),
    "every_service_finds_pods": (
        lambda objects: find(objects, "Service", "-edge")["spec"]["selector"].update({"app": "other"}),
    ),
    "pods_have_a_priority": (lambda objects: edge(objects).pop("priorityClassName"),),
    "a_job_ends": (lambda objects: find(objects, "Job")["spec"].pop("activeDeadlineSeconds"),),
}


@pytest.mark.parametrize(("name", "change"), [(name, change) for name, changes in BROKEN.items() for change in changes])
def test_each_rule_notices_what_it_is_for(name: str, change: Change, release: list[Object]) -> None:
    broken = copy.deepcopy(release)
    change(broken)
    assert list(getattr(linting, name)(broken))


def test_no_rule_goes_without_such_a_test() -> None:
    assert BROKEN.keys() == {rule.__name__ for rule in RULES}

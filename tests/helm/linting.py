"""What linters of Kubernetes ask of a release, as functions: objects in, faults out.

kube-linter, kube-score and Polaris have these rules too; no registry that the tests reach has the first and the last. A
rule looks at the chart's own objects alone: what the values add is the operator's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.helm.chart import Object, of_kind, pod_specs

Faults = Iterator[str]
Rule = Callable[[list[Object]], Faults]
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|PRIVATE", re.I)
_HOSTNAME = "kubernetes.io/hostname"


def containers(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    for name, spec in pod_specs(objects):
        for container in spec["containers"]:
            yield f"{name}/{container['name']}", container


def image_is_pinned(objects: list[Object]) -> Faults:
    for name, container in containers(objects):
        tag = container["image"].rpartition("/")[2].partition(":")[2]
        if not tag or tag == "latest":
            yield f"{name}: {container['image']} has no tag that stays"


def image_is_asked_for(objects: list[Object]) -> Faults:
    """Without the question a node runs an image that a pod has no right to pull."""
    for name, container in containers(objects):
        if container["imagePullPolicy"] != "Always":
            yield f"{name}: imagePullPolicy {container['imagePullPolicy']}"


def probes_are_there(objects: list[Object]) -> Faults:
    for each in of_kind(objects, "StatefulSet"):
        for container in each["spec"]["template"]["spec"]["containers"]:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if probe not in container:
                    yield f"{each['metadata']['name']}/{container['name']}: no {probe}"


def resources_are_bounded(objects: list[Object]) -> Faults:
    for name, container in containers(objects):
        resources = container.get("resources", {})
        missing = {"cpu", "memory"} - resources.get("requests", {}).keys()
        if missing or "memory" not in resources.get("limits", {}):
            yield f"{name}: {resources}"


def containers_are_confined(objects: list[Object]) -> Faults:
    wanted = {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    for name, container in containers(objects):
        security = container.get("securityContext", {})
        if not wanted.items() <= security.items() or security.get("privileged") or "add" in security["capabilities"]:
            yield f"{name}: {security}"


def nobody_is_root(objects: list[Object]) -> Faults:
    for name, spec in pod_specs(objects):
        security = spec.get("securityContext", {})
        if not (security.get("runAsNonRoot") and security.get("runAsUser", 0) >= 10_000):
            yield f"{name}: {security}"


def the_node_stays_closed(objects: list[Object]) -> Faults:
    for name, spec in pod_specs(objects):
        if shared := [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]:
            yield f"{name}: {shared}"
        if any("hostPath" in volume for volume in spec["volumes"]):
            yield f"{name}: hostPath"
    for name, container in containers(objects):
        if any("hostPort" in port for port in container.get("ports", ())):
            yield f"{name}: hostPort"


def no_pod_may_speak_to_kubernetes(objects: list[Object]) -> Faults:
    for name, spec in pod_specs(objects):
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: a token is mounted"
    for each in objects:
        if each["kind"] in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
            yield f"{each['kind']} {each['metadata']['name']}"


def secrets_come_from_secrets(objects: list[Object]) -> Faults:
    for name, container in containers(objects):
        for variable in container.get("env", ()):
            if _SECRET.search(variable["name"]) and "value" in variable:
                yield f"{name}: {variable['name']} in clear"


def several_pods_are_apart(objects: list[Object]) -> Faults:
    for each in several(objects):
        spread = each["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        hard = [one for one in spread if one["whenUnsatisfiable"] == "DoNotSchedule"]
        if _HOSTNAME not in [one["topologyKey"] for one in hard]:
            yield f"{each['metadata']['name']}: two may share a node"


def no_drain_ends_all(objects: list[Object]) -> Faults:
    budgets = [each["spec"] for each in of_kind(objects, "PodDisruptionBudget")]
    for each in several(objects):
        own = [one for one in budgets if one["selector"]["matchLabels"] == each["spec"]["selector"]["matchLabels"]]
        if [one for one in own if 1 <= one["maxUnavailable"] < each["spec"]["replicas"]] != own or not own:
            yield f"{each['metadata']['name']}: {own}"


def edges_survive_a_loss_during_an_update(objects: list[Object]) -> Faults:
    for each in of_kind(objects, "StatefulSet"):
        if each["metadata"]["name"].endswith("-edge") and each["spec"]["replicas"] < 3:
            yield f"{each['metadata']['name']}: {each['spec']['replicas']} edges"


def every_pod_is_policed(objects: list[Object]) -> Faults:
    selectors = [each["spec"]["podSelector"] for each in of_kind(objects, "NetworkPolicy")]
    for each in objects:
        metadata = each["spec"]["template"]["metadata"] if each["kind"] in ("StatefulSet", "Job") else each["metadata"]
        if each["kind"] in ("StatefulSet", "Job", "Pod") and not any(
            selects(selector, metadata["labels"]) for selector in selectors
        ):
            yield f"{each['kind']} {each['metadata']['name']}"


def every_service_finds_pods(objects: list[Object]) -> Faults:
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind(objects, "StatefulSet")]
    for each in of_kind(objects, "Service"):
        if not any(each["spec"]["selector"].items() <= one.items() for one in labels):
            yield f"Service {each['metadata']['name']}"


def pods_have_a_priority(objects: list[Object]) -> Faults:
    for name, spec in pod_specs(objects):
        if not spec.get("priorityClassName"):
            yield name


def a_job_ends(objects: list[Object]) -> Faults:
    for each in of_kind(objects, "Job"):
        if not {"backoffLimit", "activeDeadlineSeconds"} <= each["spec"].keys():
            yield f"Job {each['metadata']['name']}"


def several(objects: list[Object]) -> list[Object]:
    """Sets of pods that do the same work. Those of a standby share one volume, so they are on one node on purpose."""
    sets = [each for each in of_kind(objects, "StatefulSet") if each["spec"].get("replicas", 1) > 1]
    return [each for each in sets if "podAffinity" not in each["spec"]["template"]["spec"].get("affinity", {})]


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Selects as Kubernetes does by labels; the chart's selectors ask for values alone."""
    asked = {key: [value] for key, value in selector.get("matchLabels", {}).items()}
    asked |= {each["key"]: each["values"] for each in selector.get("matchExpressions", ())}
    return all(labels.get(key) in values for key, values in asked.items())


RULES: tuple[Rule, ...] = (
    image_is_pinned,
    image_is_asked_for,
    probes_are_there,
    resources_are_bounded,
    containers_are_confined,
    nobody_is_root,
    the_node_stays_closed,
    no_pod_may_speak_to_kubernetes,
    secrets_come_from_secrets,
    several_pods_are_apart,
    no_drain_ends_all,
    edges_survive_a_loss_during_an_update,
    every_pod_is_policed,
    every_service_finds_pods,
    pods_have_a_priority,
    a_job_ends,
)

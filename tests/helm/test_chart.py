"""The chart as a whole: every set of values that CI knows, under both Helms, against Kubernetes' own schemas."""

from __future__ import annotations

import copy
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from tests.helm.chart import (
    CHART,
    CI_VALUES,
    NAMESPACE,
    RELEASE,
    Object,
    find,
    of_kind,
    pod_specs,
    render,
    render_exactly,
    template,
)
from tests.helm.schemas import CUSTOM, NEWEST, OLDEST, faults
from tests.helm.tools import helm_3, helm_4

BOTH_HELMS = pytest.mark.parametrize("helm", [helm_3, helm_4], ids=["helm-3", "helm-4"])
OF_THE_CLUSTER = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
LONG_NAME = "a-release-with-a-name-as-long-as-helm-lets-it-be-here"  # 53 characters


def objects_of(values: Path, *arguments: str) -> list[Object]:
    return render_exactly(yaml.safe_load(values.read_text()), CHART, *arguments)


@BOTH_HELMS
def test_helm_finds_nothing_to_complain_about(helm: Any, values: Path) -> None:
    command = [str(helm()), "lint", "--strict", str(CHART), "--values", str(values)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_both_helms_make_the_same_of_the_same_values(values: Path) -> None:
    texts = [template(helm(), CHART, "--values", str(values)) for helm in (helm_3, helm_4)]
    old, new = (sorted(map(repr, yaml.safe_load_all(text))) for text in texts)
    assert old == new


@pytest.mark.parametrize("kubernetes", [OLDEST, NEWEST])
def test_every_object_has_only_fields_that_kubernetes_knows(values: Path, kubernetes: str) -> None:
    objects = objects_of(values, "--kube-version", kubernetes)
    assert [fault for each in objects for fault in faults(each, kubernetes)] == []


def test_every_custom_resource_of_the_chart_has_been_validated() -> None:
    made = {(each["apiVersion"], each["kind"]) for values in CI_VALUES for each in objects_of(values)}
    elsewhere = {("cert-manager.io/v1", "Issuer")}
    assert made == {each for each in made if each not in CUSTOM} | CUSTOM.keys() - elsewhere


def test_every_object_says_what_it_belongs_to(values: Path) -> None:
    for each in objects_of(values):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "meshgate", each["metadata"]["name"]
        assert labels["app.kubernetes.io/instance"] == RELEASE, each["metadata"]["name"]
        if each["kind"] not in OF_THE_CLUSTER:  # for those who apply a template
            assert each["metadata"]["namespace"] == NAMESPACE, each["metadata"]["name"]


@pytest.mark.parametrize(
    ("kind", "name", "misspelt"),
    [("StatefulSet", "-edge", "replica"), ("Service", "-edge", "port"), ("NetworkPolicy", "-edge", "ingres")],
)
def test_the_validation_notices_a_misspelt_field(kind: str, name: str, misspelt: str) -> None:
    each = copy.deepcopy(find(render(), kind, name))
    assert faults(each) == []
    each["spec"][misspelt] = 1
    assert misspelt in faults(each)[0]


def test_pods_keep_to_pod_security_restricted_with_a_read_only_file_system(values: Path) -> None:
    for name, spec in pod_specs(objects_of(values)):
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] == 10001, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        on_its_node = values.stem == "bare-metal-values" and name.endswith("-edge")
        assert {"hostNetwork", "hostPID", "hostIPC"} & spec.keys() == ({"hostNetwork"} if on_its_node else set()), name
        assert {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]} <= {
            "configMap", "secret", "emptyDir", "persistentVolumeClaim",
        }, name  # fmt: skip
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name


def test_every_mount_has_its_volume_and_every_volume_is_mounted(values: Path) -> None:
    for name, spec in pod_specs(objects_of(values)):
        volumes = {volume["name"] for volume in spec["volumes"]}
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert volumes == mounted, name
        for container in spec["containers"]:
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths)), name


def test_memory_is_limited_and_every_size_is_requested(values: Path) -> None:
    for name, spec in pod_specs(objects_of(values)):
        for container in spec["containers"]:
            if container["name"] != "executor":  # Spark writes an executor's
                assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
                assert "memory" in container["resources"]["limits"], name


def test_no_two_objects_have_one_name(values: Path) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in objects_of(values)]
    assert sorted(set(names)) == sorted(names)


def test_labels_of_pods_are_found_by_their_selectors_and_change_with_no_version() -> None:
    for part in ("edge", "router"):
        stateful = find(render(), "StatefulSet", f"-{part}")["spec"]
        labels = stateful["template"]["metadata"]["labels"]
        assert stateful["selector"]["matchLabels"].items() <= labels.items()
        assert labels["app.kubernetes.io/component"] == part
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & labels.keys()


def test_the_service_that_gives_a_sets_pods_their_names_is_there(values: Path) -> None:
    objects = objects_of(values)
    for each in of_kind(objects, "StatefulSet"):
        service = find(objects, "Service", each["spec"]["serviceName"])["spec"]
        assert service["clusterIP"] == "None"
        assert service["selector"] == each["spec"]["selector"]["matchLabels"]


def test_names_leave_room_for_what_kubernetes_adds_to_them() -> None:
    command = [str(helm_4()), "template", LONG_NAME, str(CHART), "--values", str(CHART / "ci" / "minimal-values.yaml")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    for each in yaml.safe_load_all(run.stdout):
        if each and each["kind"] == "StatefulSet":
            revision_label = f"{each['metadata']['name']}-" + "x" * 10
            assert len(revision_label) <= 63
        assert faults(each) == [] if each else True


def test_a_release_name_with_dots_still_gives_edges_an_id() -> None:
    objects = render(fullnameOverride="mesh.eu.north")
    assert find(objects, "StatefulSet", "-edge")["metadata"]["name"] == "mesh-eu-north-edge"


def test_the_chart_is_for_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    images = [container["image"] for _, spec in pod_specs(render()) for container in spec["containers"]]
    assert set(images) == {f"meshgate/edge:{__version__}", f"meshgate/router:{__version__}"}


def test_what_a_catalogue_of_charts_shows_is_true() -> None:
    notes = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    assert all(name.startswith("artifacthub.io/") and isinstance(text, str) for name, text in notes.items())
    listed = {each["image"] for each in yaml.safe_load(notes["artifacthub.io/images"])}
    assert listed == {container["image"] for _, spec in pod_specs(render()) for container in spec["containers"]}
    changes = yaml.safe_load(notes["artifacthub.io/changes"])
    assert {each["kind"] for each in changes} <= {"added", "changed", "deprecated", "removed", "fixed", "security"}
    named = {word for each in changes for word in re.findall(r"\(([a-z]\w*(?:\.\w+)*)\)", each["description"])}
    assert named
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert [path for path in named if not is_a_value(values, path)] == []


def is_a_value(values: dict[str, Any], path: str) -> bool:
    first, _, rest = path.partition(".")
    return first in values and (not rest or is_a_value(values[first], rest))


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        ({"tag": "2.0"}, "meshgate/edge:2.0"),
        ({"tag": "2.0", "digest": f"sha256:{'a' * 64}"}, f"meshgate/edge@sha256:{'a' * 64}"),
        ({"repository": "edge"}, f"edge:{__version__}"),
    ],
)
def test_an_image_is_named_by_its_digest_else_by_its_tag(image: dict[str, str], wanted: str) -> None:
    edge = find(render(images={"edge": image}), "StatefulSet", "-edge")
    assert edge["spec"]["template"]["spec"]["containers"][0]["image"] == wanted


def test_a_registry_and_its_secrets_reach_every_pod() -> None:
    objects = render(images={"registry": "registry.example.org:5000", "pullSecrets": ["one", "two"]})
    for name, spec in pod_specs(objects):
        assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}], name
        assert spec["containers"][0]["image"].startswith("registry.example.org:5000/meshgate/"), name

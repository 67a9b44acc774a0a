"""The chart as a function: values in, objects out, or what it says against the values."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from tests.helm.tools import helm_4

CHART = Path(__file__).parents[2] / "helm" / "meshgate"
CI_VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
RELEASE, NAMESPACE = "demo", "mesh"
LEAST: dict[str, Any] = {"trust": {"secret": "mesh-trust"}, "kafka": {"bootstrap": "kafka:9092"}}
RENDER_SECONDS = 60

Object = dict[str, Any]


class Refused(Exception):
    """The chart or its schema refused the values; the text says why."""


def render(**values: Any) -> list[Object]:
    """Adds the least that a release must say; given values win, key by key."""
    return render_exactly(merged(LEAST, values))


def render_exactly(values: dict[str, Any], chart: Path = CHART, *arguments: str) -> list[Object]:
    return [dict(each) for each in _rendered(json.dumps(values, sort_keys=True), chart, arguments)]


def refusal(*arguments: str, **values: Any) -> str:
    """Why these values are refused; fails if they are not."""
    try:
        render_exactly(merged(LEAST, values), CHART, *arguments)
    except Refused as refused:
        return str(refused)
    raise AssertionError("the values were accepted")


@cache
def _rendered(values: str, chart: Path, arguments: tuple[str, ...]) -> list[Object]:
    text = template(helm_4(), chart, "--values", "-", *arguments, values=values)
    return [each for each in yaml.safe_load_all(text) if each]


def template(helm: Path, chart: Path, *arguments: str, values: str | None = None) -> str:
    command = [str(helm), "template", RELEASE, str(chart), "--namespace", NAMESPACE, *arguments]
    run = subprocess.run(command, input=values, capture_output=True, text=True, timeout=RENDER_SECONDS, check=False)
    if run.returncode:
        raise Refused(run.stderr)
    return run.stdout


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merges as Helm merges values: mappings key by key, all else whole."""
    both = dict(under)
    for name, value in over.items():
        mine = both.get(name)
        both[name] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def find(objects: list[Object], kind: str, name: str = "") -> Object:
    """The one object of a kind, with this end of its name if there are several."""
    found = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)]
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(found) == 1, f"{len(found)} of kind {kind} end in {name!r}: {names}"
    return found[0]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def pod_specs(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Every pod that a release may make, however it is written."""
    for each in objects:
        name, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec", {})
        if each["kind"] == "Pod":
            yield name, spec
        elif each["kind"] in ("StatefulSet", "Job"):
            yield name, with_claims(spec["template"]["spec"], spec.get("volumeClaimTemplates", []))
        elif each["kind"] == "SparkApplication":
            for part in ("driverSpec", "executorSpec"):
                yield f"{name} {part}", spec[part]["podTemplateSpec"]["spec"]
        elif each["kind"] == "ConfigMap" and "executor.yaml" in each["data"]:
            yield f"{name} executor.yaml", yaml.safe_load(each["data"]["executor.yaml"])["spec"]


def with_claims(pod: Object, claims: list[Object]) -> Object:
    """A StatefulSet adds a volume for each of its claims."""
    made = [{"name": claim["metadata"]["name"], "persistentVolumeClaim": {}} for claim in claims]
    return {**pod, "volumes": [*pod["volumes"], *made]}


def configuration(objects: list[Object], name: str = f"{RELEASE}-meshgate") -> dict[str, Any]:
    """meshgate.yaml as the pods get it."""
    config = find(objects, "ConfigMap", name)["data"]["meshgate.yaml"]
    loaded: dict[str, Any] = yaml.safe_load(config)
    return loaded


def module_at(path: Path) -> ModuleType:
    """A program that lies outside the packages."""
    spec = importlib.util.spec_from_file_location(f"at_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module

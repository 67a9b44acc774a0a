"""Tests that the pages can be followed: links lead somewhere, values and objects exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.helm.chart import CHART, find, render, render_exactly
from tests.helm.test_values import SCHEMA, resolved

ROOT = CHART.parents[1]
PAGES = [ROOT / "k8s" / "OPERATE.md", ROOT / "k8s" / "RUNBOOKS.md", CHART / "README.md"]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
ELSEWHERE = {
    "edge.management", "router.management", "edge.redirect_url", "router.checkpoint", "tls.crl",  # of the configuration
    "tls.crt", "tls.key", "keys.yaml", "values.yaml", "meshgate.yaml", "ca.crt",  # files
    "tls.secret", "tls.dnsNames", "tls.clientCa",  # of a listener
    "min.insync.replicas",  # of Kafka
    "net.core.rmem_max",  # of Linux
    "spark.authenticate",  # of Spark
}  # fmt: skip
"""What has dots in it and is no value of the chart's."""


def code(page: Path) -> Iterator[str]:
    """Lines of blocks, those that go on in the next one joined; and what stands in the text's marks."""
    *parts, last = re.split(r"^ *```\w*\n", page.read_text(), flags=re.M)
    assert len(parts) % 2 == 0, "a block has no end"
    for block in parts[1::2]:
        yield from block.replace("\\\n", " ").splitlines()
    for text in [*parts[::2], last]:
        yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text))
        yield from re.findall(r"^ {4}(\S.*)$", text, flags=re.M)


def commands(page: Path, program: str) -> list[list[str]]:
    """Their words behind the program's name, wherever in a line it is called."""
    pattern = re.compile(rf"(?:^|-- |\| ){program} (?P<words>[^|#]+)")
    called = [found["words"] for line in code(page) if (found := pattern.search(line))]
    return [shlex.split(words.partition("&&")[0].replace("…", "SOMETHING").rstrip("\\ ")) for words in called]


@cache
def anchors(page: Path) -> set[str]:
    """Makes anchors as forges make them of headings."""
    titles = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@EACH_PAGE
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_least_values_that_are_shown_make_a_release_of_the_images_that_are_pushed() -> None:
    page = PAGES[0].read_text()
    (shown,) = re.findall(r"```yaml\n(images: .*?)```", page, flags=re.S)
    edge = find(render_exactly(yaml.safe_load(shown)), "StatefulSet", "-edge")
    (image,) = {each["image"] for each in edge["spec"]["template"]["spec"]["containers"]}
    assert f"docker push {image}\n" in page


def has_value(path: str) -> bool:
    schema = SCHEMA
    for name in path.split("."):
        schema = resolved(schema)
        if name not in schema.get("properties", {}):
            return "properties" not in schema and schema.get("type") == "object"
        schema = schema["properties"][name]
    return True


@EACH_PAGE
def test_every_value_that_is_named_is_one_of_the_charts(page: Path) -> None:
    spans = [span for span in code(page) if re.fullmatch(r"[a-z]\w*(\.\w+)+(: \S+)?", span)]
    named = {span.partition(":")[0] for span in spans} - ELSEWHERE
    named |= {word.partition("=")[0] for words in commands(page, "helm") for word in words if "=" in word}
    assert named
    assert [path for path in sorted(named) if not has_value(path)] == []


@EACH_PAGE
def test_every_object_that_is_named_is_one_of_the_charts(page: Path) -> None:
    made = {each["metadata"]["name"] for each in render()}
    pods = {f"{each['metadata']['name']}-0" for each in render() if each["kind"] == "StatefulSet"}
    named = set(re.findall(r"\bdemo-meshgate[a-z0-9-]*", page.read_text()))
    assert named <= made | pods


@EACH_PAGE
def test_what_looks_for_a_fault_of_the_router_looks_at_a_standby_too(page: Path) -> None:
    """Which of two pods routes is not known by its name."""
    assert re.findall(r"kubectl[^`\n]* (?:logs|describe|delete|top) [^`\n]*router-0", page.read_text()) == []

"""Public names: docstrings begin with a sentence, their examples are run, and a class name means one thing."""

from __future__ import annotations

import ast
import doctest
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("gateway", "streaming_jobs")
FRAGMENTS = ("Of", "To", "By", "With", "Whom", "What", "As", "For", "From")
"""A first sentence that begins with one of these is no sentence without the signature below it."""
HAS_SENTENCE_END = (".", ":")
"""A colon stands before a picture or a list that the sentence introduces."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def modules_with_examples() -> Iterator[str]:
    for path in sources():
        if ">>> " in path.read_text():
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def public_names(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Documented]]:
    yield prefix.removesuffix(".") or "the module", node
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public_names(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield f"{prefix}{child.name}", child


def fault_of(docstring: str) -> str:
    """Returns why this docstring does not begin with a sentence; empty if it does."""
    opening = docstring.split("\n\n")[0].strip()
    if opening.startswith(">>>"):
        return "an example stands before the first sentence"
    if opening.split(maxsplit=1)[0].rstrip(",:") in FRAGMENTS:
        return "begins with a fragment"
    return "" if opening.endswith(HAS_SENTENCE_END) else "its first paragraph does not end a sentence"


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_an_example_gives_what_it_says(name: str) -> None:
    failed, attempted = doctest.testmod(import_module(name))
    assert attempted
    assert not failed


def test_the_docstring_of_a_public_name_begins_with_a_sentence() -> None:
    faults = []
    seen = 0
    for path in sources():
        for name, node in public_names(ast.parse(path.read_text())):
            docstring = ast.get_docstring(node)
            seen += docstring is not None
            if docstring is not None and (fault := fault_of(docstring)):
                faults.append(f"{path.relative_to(ROOT)}: {name}: {fault}: {docstring.splitlines()[0]}")
    assert seen > 1_000
    assert faults == []


@pytest.mark.parametrize("fragment", ["Of one node.", "To its node.", "What waits.", "As `a`.", ">>> f(1)", "No stop"])
def test_a_fragment_is_found(fragment: str) -> None:
    assert fault_of(fragment)


def test_the_name_of_a_public_class_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}

"""The examples in docstrings are run, wherever there are any."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "streaming_jobs")


def modules_with_examples() -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if ">>> " in path.read_text():
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_an_example_gives_what_it_says(name: str) -> None:
    failed, attempted = doctest.testmod(import_module(name))
    assert attempted
    assert not failed

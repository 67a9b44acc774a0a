"""Runs every command of the pages that needs no mesh; `tests/integration/test_page_commands.py` runs the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.docs.site import ROOT
from tests.unit.cli.running import run
from tests.unit.docs.page_shell import NOT_RUN, PAGES, SHAPES, SUBSTITUTES, opened_shell, reason, to_run

HAVE_RUN: set[str] = set()
"""A command that stands on two pages is run once."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mesh")
    assert run("init", "--dir", str(folder)).exit_code == 0
    return str(folder / "meshgate.yaml")


@pytest.mark.parametrize("path", [path for path in PAGES if to_run(path, on_mesh=False)])
def test_every_command_of_a_page_works_without_a_mesh(path: str, config: str, tmp_path: Path) -> None:
    shell = opened_shell(tmp_path, {"config": config})
    commands = [command for command in to_run(path, on_mesh=False) if command.line not in HAVE_RUN]
    HAVE_RUN.update(command.line for command in commands)
    faults = [shell.run(command) for command in commands] + shell.end()
    assert "\n\n".join(filter(None, faults)) == ""
    for name in ("gateway/docs/settings.md", "gateway/protocols/TRANSLATION.md"):
        if (tmp_path / name).exists():
            assert (tmp_path / name).read_text() == (ROOT / name).read_text()


def test_what_is_not_run_stands_in_the_list_with_a_reason_and_nothing_else_does() -> None:
    lines = [command.line for page in PAGES.values() for command in page]
    assert sum(not reason(line) for line in lines) > 70
    assert [pattern for pattern in NOT_RUN if not any(re.fullmatch(pattern, line, re.S) for line in lines)] == []
    assert [pattern for pattern in SHAPES if not any(re.fullmatch(pattern, line) for line in lines)] == []
    assert [pattern for pattern in SUBSTITUTES if not any(re.search(pattern, line) for line in lines)] == []

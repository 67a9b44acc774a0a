"""Wrong uses that are refused in one line before anything is connected or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.console import Exit
from tests.unit.cli.running import run

NO_UTF8 = "J\udcfcrgen"
"""A label as a shell passes it on that was typed in Latin-1."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("init").exit_code == Exit.OK
    return tmp_path


def refusal(*words: str) -> str:
    result = run(*words)
    (line,) = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (Exit.USAGE, "")
    return line


@pytest.mark.parametrize("verb", [("audit",), ("replay",), ("rejected", "list"), ("rejected", "redrive", "--all")])
@pytest.mark.parametrize("end", ["2h", "2020-01-01T00:00:00Z"])
def test_a_range_that_ends_before_it_begins_is_refused(verb: tuple[str, ...], end: str) -> None:
    """Nothing lies in it, so an audit would balance."""
    assert refusal(*verb, "--from", "1h", "--to", end).startswith("meshgate: --to must be later than --from")


@pytest.mark.parametrize("verb", [("sub",), ("serve",), ("tap", "--subject")])
@pytest.mark.parametrize(("wrong", "why"), [("a.>.b", "may only be the last token"), ("a b", "has no spaces")])
def test_a_pattern_that_cannot_be_is_refused_with_its_fault(verb: tuple[str, ...], wrong: str, why: str) -> None:
    line = refusal(*verb, wrong, *(["--", "true"] if verb == ("serve",) else []))
    assert f"{wrong}: " in line
    assert why in line


@pytest.mark.parametrize("verb", [("keys", "new", "--label"), ("sub", "a", "--group"), ("sql",)])
def test_a_text_that_is_no_utf8_is_told_as_such(folder: Path, verb: tuple[str, ...]) -> None:
    before = (folder / "keys.yaml").read_bytes()
    assert "is no UTF-8" in refusal(*verb, NO_UTF8)
    assert (folder / "keys.yaml").read_bytes() == before


@pytest.mark.parametrize("verb", ["status", "logs", "down"])
def test_a_configuration_that_is_not_there_is_no_mesh_that_does_not_run(verb: str) -> None:
    """A user who mistypes the file of a mesh that runs would read that it is down."""
    result = run(verb, "-c", "mseh/meshgate.yaml")
    assert (result.exit_code, result.stdout) == (Exit.CONFIG, "")
    assert result.stderr == "meshgate: mseh/meshgate.yaml: cannot read it: no such file\n"


def test_a_mesh_whose_configuration_has_gone_can_still_be_ended(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "meshgate.yaml").unlink()
    assert run("down", "-c", "meshgate.yaml").exit_code == Exit.OK

"""Tests what verbs that list choose by, and what they say where nothing was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.cli.console import Exit
from tests.unit.cli.running import run, said

LISTING = [("peers", "list"), ("interests", "list"), ("rejected", "list"), ("rejected", "redrive"), ("tap",)]


@pytest.mark.parametrize("verb", LISTING, ids=" ".join)
def test_a_protocol_that_is_none_is_a_fault_and_no_empty_list(verb: tuple[str, ...]) -> None:
    result = run(*verb, "--protocol", "ymap")
    assert result.exit_code == Exit.USAGE
    assert re.search(r"'ymap' is not one of 'emm', .*'yamp'", result.stderr)


def nothing(*_: Any) -> Iterator[Any]:
    return iter(())


@pytest.fixture
def nothing_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class History(SimpleNamespace):
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.chdir(tmp_path)
    Path("meshgate.yaml").write_text("mesh: demo")
    monkeypatch.setattr("gateway.cli.rejected.History", lambda _config: History())
    monkeypatch.setattr("gateway.cli.rejected.rejections", nothing)
    monkeypatch.setattr("streaming_jobs.replay.redrive.redrive", lambda *_, **__: [])


@pytest.mark.usefixtures("nothing_refused")
def test_where_nothing_is_to_be_sent_again_people_are_told_so() -> None:
    assert run("rejected", "redrive", "--all").stdout == "nothing to send again\n"
    assert said(run("rejected", "redrive", "--all", "--output", "json")) == []

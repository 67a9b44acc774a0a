"""The fixtures that the tests of clients share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a configuration."""
    monkeypatch.chdir(tmp_path)

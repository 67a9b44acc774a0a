"""The sets of values that CI knows, for tests that hold of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helm.chart import CI_VALUES


@pytest.fixture(params=CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def values(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)

"""The fixtures that several tests of the edge share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.edge.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)

"""Makes what most tests of the folder begin with."""

from __future__ import annotations

import pytest

from tests.unit.routing.mesh_in_a_log import MeshInALog


@pytest.fixture
def mesh() -> MeshInALog:
    return MeshInALog()

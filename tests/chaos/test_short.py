"""Everything is killed once, in an order and at moments drawn from a seed that is said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.mesh import chaos_mesh
from tests.chaos.plan import short_form
from tests.chaos.scenario import run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]


def test_nothing_that_was_acknowledged_is_lost_whatever_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with chaos_mesh(tmp_path) as mesh:
        run(mesh, short_form(chance), chance, print)

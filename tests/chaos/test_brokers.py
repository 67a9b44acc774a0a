"""Three brokers, one of which is killed and another frozen, in an order drawn from a seed that is said."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.brokers import Brokers
from tests.chaos.mesh import chaos_mesh
from tests.chaos.plan import brokers_once
from tests.chaos.scenario import run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SESSION_MILLISECONDS = 3_000
"""A broker that is silent is given up sooner than by default, so that the test need not wait for it."""


def test_what_was_acknowledged_outlives_any_one_of_three_brokers(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    brokers = Brokers(tmp_path / "brokers", session_milliseconds=SESSION_MILLISECONDS)
    with chaos_mesh(tmp_path, brokers=brokers) as mesh:
        run(mesh, brokers_once(chance), chance, print)

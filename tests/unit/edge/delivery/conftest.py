"""Makes what most tests of redelivery begin with."""

from __future__ import annotations

import pytest

from tests.unit.edge.delivery.queue_store import Store


@pytest.fixture
def store() -> Store:
    return Store()

"""Makes what most tests of the folder begin with."""

from __future__ import annotations

import pytest

from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.emp.talk import emp


@pytest.fixture
def talk() -> Conversation:
    return emp()

"""Makes what most tests of the folder begin with."""

from __future__ import annotations

import pytest

from tests.unit.protocols.contract.conversation import Conversation
from tests.unit.protocols.hsp.talk import hsp


@pytest.fixture
def talk() -> Conversation:
    return hsp()

"""Makes what most tests of the folder begin with."""

from __future__ import annotations

import pytest

from tests.unit.protocols.wolpertinger import talk
from tests.unit.protocols.wolpertinger.talk import Talk


@pytest.fixture
def conversation() -> Talk:
    return talk.talk()

"""Every test of the contract runs for every stream protocol, and for a sixth that nobody wrote the gateway for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.protocols.spec import ProtocolSpec
from tests.unit.protocols.contract.streams import SIXTH, Examples, examples, found, stream_protocols


@pytest.fixture(scope="module", params=[*stream_protocols(), SIXTH])
def spec(request: pytest.FixtureRequest) -> Iterator[ProtocolSpec[Any]]:
    with found(request.param) as protocol:
        yield protocol


@pytest.fixture(scope="module")
def known(spec: ProtocolSpec[Any]) -> Examples:
    return examples(spec.name)

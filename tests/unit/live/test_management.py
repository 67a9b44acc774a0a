"""The management address: where it may be."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gateway.address import HostPort
from gateway.live.parts import Part
from gateway.telemetry.management import Management


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::"])  # noqa: S104 - for a moment
def test_it_answers_at_whatever_address_it_is_given(host: str) -> None:
    config = {"mesh": "demo"}
    management = Management(HostPort(host, 0), CollectorRegistry(), started=dict, ready=dict, config=lambda: config)
    management.start()
    try:
        assert Part("one", "--edge", HostPort(host, management.port).reachable).json("/config") == config
    finally:
        management.stop()

"""Tests what strangers may do."""

from __future__ import annotations

import pytest

from gateway.checkup.access import check_access
from gateway.checkup.findings import Level
from tests.unit.config.reading import read

OPEN = "{name: apps, protocol: yamp, listen: 'tcp://0.0.0.0:5042'}"
LOCAL = "{name: apps, protocol: yamp, listen: 'tcp://127.0.0.1:5042'}"
TLS = "tls: {cert: c, key: k, client_ca: ca}"


@pytest.mark.parametrize(
    ("listener", "permissions", "level"),
    [
        (OPEN, "", Level.WARN),
        (OPEN, "{nodes: ['anon:*'], publish: {allow: []}, subscribe: {allow: []}, serve: {allow: []}}", Level.OK),
        (OPEN, "{nodes: ['anon:*'], publish: {allow: []}}", Level.WARN),
        (LOCAL, "", Level.OK),
        ("{name: apps, protocol: yamp, listen: 'tls://0.0.0.0:5042', tls: {cert: c, key: k}}", "", Level.WARN),
        (f"{{name: apps, protocol: yamp, listen: 'tls://0.0.0.0:5042', {TLS}}}", "", Level.OK),
        ("{name: devices, protocol: emm, listen: 'udp://0.0.0.0:5050'}", "", Level.OK),
        ("{name: devices, protocol: emm, listen: 'udp://0.0.0.0:5050', unauthenticated: accept}", "", Level.WARN),
    ],
)
def test_a_listener_is_open_where_who_proves_nothing_may_do_something(
    listener: str, permissions: str, level: Level
) -> None:
    config = read(f"{{mesh: demo, listeners: [{listener}], permissions: [{permissions}]}}")
    assert next(iter(check_access(config))).level is level


def test_a_management_address_beyond_loopback_is_told() -> None:
    config = read("{mesh: demo, edge: {management: '0.0.0.0:9640'}}")
    _, management = check_access(config)
    assert (management.level, "edge.management 0.0.0.0:9640" in management.text) == (Level.WARN, True)

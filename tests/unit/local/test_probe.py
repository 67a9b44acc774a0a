"""Through which listener `up` sends its first event."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.auth.keyring import GatewayIdentity
from gateway.local.first_event import probed_listener
from tests.unit.config.reading import NODE, read

GATEWAY = GatewayIdentity(UUID(NODE).bytes, b"\0\0\0\xff", b"s" * 32)
MESH = """
mesh: demo
listeners:
  - {name: plc, protocol: hsp, listen: tcp://127.0.0.1:5141}
  - {name: secret, protocol: emm, listen: quic://127.0.0.1:5051, tls: {cert: c, key: k}}
  - {name: one, protocol: emm, listen: udp://127.0.0.1:5050}
  - {name: two, protocol: emm, listen: udp://127.0.0.1:5052}
"""


def probed(permissions: str) -> str | None:
    listener = probed_listener(read(f"{MESH}permissions: [{permissions}]"), GATEWAY)
    return listener.name if listener else None


def test_it_is_the_first_that_takes_plain_datagrams() -> None:
    assert probed("") == "one"


def test_it_is_one_where_the_permissions_let_the_gateway_through() -> None:
    assert probed("{listeners: [one], publish: {allow: [order.>]}}") == "two"


@pytest.mark.parametrize("denied", ["publish: {allow: [order.>]}", "subscribe: {deny: [meshgate.>]}"])
def test_it_is_none_where_the_permissions_let_the_gateway_through_nowhere(denied: str) -> None:
    assert probed(f"{{nodes: ['*'], {denied}}}") is None

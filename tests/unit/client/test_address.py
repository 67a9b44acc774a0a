"""Tests the addresses of peers."""

from __future__ import annotations

import pytest

from gateway.client.address import XmppAddress, peer_address
from gateway.client.errors import UnreachableError
from gateway.protocols import protocols

EXPECTED_XMPP = "expected xmpp://USER@HOST/PEER, such as xmpp://alice@example.org/mesh.example.org"


@pytest.mark.parametrize(
    ("protocol", "where", "port", "tls", "address"),
    [
        ("yamp", "mesh.example.org", None, False, "tcp://mesh.example.org:5042"),
        ("yamp", "mesh.example.org:1", None, False, "tcp://mesh.example.org:1"),
        ("yamp", "mesh.example.org", 1, True, "tls://mesh.example.org:1"),
        ("hsp", "[::1]", None, False, "tcp://[::1]:5041"),
        ("hsp", "[::1]:1", None, True, "tls://[::1]:1"),
        ("hsp", "::1", 1, False, "tcp://[::1]:1"),
        ("emm", "127.0.0.1", None, False, "udp://127.0.0.1:5050"),
        ("yamp", "ws://mesh:80/path", None, True, "ws://mesh:80/path"),
        ("wolpertinger", "wss://mesh:443", None, False, "wss://mesh:443"),
        ("wolpertinger", "xmpp://al@x.org/m.x.org", None, False, "xmpp://al@x.org:5222/m.x.org"),
        ("wolpertinger", "xmpp://al@x.org:1/m.x.org/a", None, False, "xmpp://al@x.org:1/m.x.org/a"),
        ("wolpertinger", "xmpp://al%40x.org@[::1]/g@m.x.org", None, False, "xmpp://al%40x.org@[::1]:5222/g@m.x.org"),
    ],
)
def test_what_is_not_said_is_the_protocols_own(
    protocol: str, where: str, port: int | None, tls: bool, address: str
) -> None:
    assert str(peer_address(protocols()[protocol], where, port, tls=tls)) == address


@pytest.mark.parametrize(
    ("protocol", "where", "why"),
    [
        ("hsp", "ws://mesh:80", "hsp runs over tcp://, tls://"),
        ("emm", "tcp://mesh:80", "emm runs over quic://, udp://"),
        ("yamp", "mesh:99999", "port 99999 is above 65535"),
        ("yamp", "me sh", "expected host:port with a port up to 65535"),
        ("yamp", "xmpp://al@x.org/m", "yamp runs over tcp://, tls://, ws://, wss://"),
        ("wolpertinger", "xmpp://x.org:5222", EXPECTED_XMPP),
        ("wolpertinger", "xmpp://al@x.org", EXPECTED_XMPP),
        ("wolpertinger", "xmpp://al:secret@x.org/m", EXPECTED_XMPP),
        ("wolpertinger", "xmpp://al@x.org:99999/m", "port 99999 is above 65535"),
        ("yamp", "tcp://mesh", "expected scheme://host:port, such as tcp://127.0.0.1:5040"),
    ],
)
def test_what_is_no_address_of_the_protocol_is_refused(protocol: str, where: str, why: str) -> None:
    with pytest.raises(UnreachableError) as refused:
        peer_address(protocols()[protocol], where)
    assert str(refused.value) == f"{where}: {why}"


@pytest.mark.parametrize(
    ("where", "user", "peer", "here"),
    [
        ("xmpp://al@x.org/m.x.org", "al@x.org", "m.x.org", False),
        ("xmpp://al%40x.org@127.0.0.1:1/m.x.org", "al@x.org", "m.x.org", True),
        ("xmpp://al%40x.org@[::1]/m.x.org", "al@x.org", "m.x.org", True),
        ("xmpp://al@localhost/m.x.org", "al@localhost", "m.x.org", True),
    ],
)
def test_an_address_behind_an_xmpp_server_says_who_speaks_to_whom(where: str, user: str, peer: str, here: bool) -> None:
    address = peer_address(protocols()["wolpertinger"], where, password="hunter2")
    assert isinstance(address, XmppAddress)
    assert (address.user, address.peer, address.is_here) == (user, peer, here)
    assert "hunter2" not in f"{address} {address!r}"

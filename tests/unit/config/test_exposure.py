"""Tests what a configuration opens to whom: nothing to strangers, unless it is bound to another address."""

from __future__ import annotations

from uuid import UUID

import pytest

from gateway.config import Config, parse
from gateway.config.default import default_text
from gateway.config.exposure import exposure, exposure_warnings
from tests.unit.config.reading import FILE, NODE, read

STRANGER = "anon:edge-0:edge-0.19a1f.7"
CLOSED = """
permissions: [{nodes: ['anon:*'], exposed: true, publish: {allow: []}, subscribe: {allow: []}, serve: {allow: []}}]
"""


def written(host: str) -> Config:
    """Returns the configuration as `init` writes it, with another address."""
    return parse(default_text("demo", UUID(NODE)).replace("://127.0.0.1:", f"://{host}:"), FILE)


def may(config: Config, node: str = STRANGER, listener: str = "yamp") -> list[bool]:
    judge = config.permissions_policy()
    return [
        judge.may_publish(node, listener, "a.b"),
        judge.may_subscribe(node, listener, "a.b"),
        judge.may_receive(node, listener, "a.b"),
        judge.may_serve(node, listener, "a.b"),
        judge.may_be_asked(node, listener, "a.b"),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_on_this_machine_a_stranger_may_do_everything(host: str) -> None:
    assert all(may(written(host)))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "mesh.example.org"])  # noqa: S104 - not bound
def test_from_outside_a_stranger_may_do_nothing_and_who_is_proven_everything(host: str) -> None:
    config = written(host)
    assert not any(may(config))
    for node in ("token:alice", "cn:plant-7", NODE, "user:bob"):
        assert all(may(config, node))


@pytest.mark.parametrize(("host", "exposed"), [("[::1]", False), ("[::]", True), ("[fd00::1]", True)])
def test_addresses_of_ipv6_are_known_too(host: str, exposed: bool) -> None:
    config = read(f"mesh: demo\nlisteners: [{{name: a, protocol: yamp, listen: 'tcp://{host}:1'}}]")
    assert config.listeners[0].is_exposed is exposed


def test_a_listener_behind_a_balancer_is_reached_from_outside_wherever_it_is_bound() -> None:
    listener = "{name: yamp, protocol: yamp, listen: 'tcp://127.0.0.1:5042', proxy_protocol: true}"
    assert not any(may(read(f"mesh: demo\nlisteners: [{listener}]\n{CLOSED}")))


PROXIED = "mesh: demo\nlisteners: [{name: a, protocol: yamp, listen: 'tcp://%s:1', proxy_protocol: true%s}]\n" + CLOSED


@pytest.mark.parametrize(
    ("host", "senders", "is_open"),
    [
        ("0.0.0.0", "", True),  # noqa: S104 - not bound
        ("0.0.0.0", ", proxy_from: [10.0.0.0/8]", False),  # noqa: S104 - not bound
        ("0.0.0.0", ", proxy_from: [10.0.0.0/8, '::/0']", True),  # noqa: S104 - not bound
        ("127.0.0.1", "", False),
    ],
)
def test_a_listener_that_takes_proxy_headers_from_anybody_is_warned_of(
    host: str, senders: str, *, is_open: bool
) -> None:
    warned = exposure_warnings(read(PROXIED % (host, senders)))
    assert [fault.path for fault in warned] == ["listeners[0].proxy_protocol"] * is_open
    assert all("proxy_from" in fault.expected for fault in warned)


def test_a_listener_that_is_gone_counts_as_exposed() -> None:
    assert not any(may(written("127.0.0.1"), listener="of-yesterday"))


def test_an_entry_may_be_for_this_machine_alone() -> None:
    listeners = (
        "[{name: near, protocol: yamp, listen: 'tcp://127.0.0.1:1'}, {name: far, protocol: yamp, listen: 'tcp://h:2'}]"
    )
    own = read(
        f"mesh: demo\nlisteners: {listeners}\npermissions: [{{exposed: false, publish: {{allow: []}}}}]"
    ).permissions_policy()
    assert not own.may_publish(STRANGER, "near", "a.b")
    assert own.may_publish(STRANGER, "far", "a.b")


def test_where_nothing_is_exposed_no_permission_is_asked_for_each_frame() -> None:
    assert not written("127.0.0.1").permissions_policy().concern("yamp")
    assert written("0.0.0.0").permissions_policy().concern("yamp")  # noqa: S104 - not bound


OPEN = "mesh: demo\nlisteners: [{name: apps, protocol: yamp, listen: 'tcp://0.0.0.0:5042'%s}]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OPEN % "", "open to everybody who reaches them: apps (tcp://0.0.0.0:5042: publish, subscribe and serve)"),
        (
            OPEN % "" + "permissions: [{publish: {allow: []}, serve: {allow: []}}]",
            "open to everybody who reaches them: apps (tcp://0.0.0.0:5042: subscribe)",
        ),
        (OPEN % "" + CLOSED, "from outside this machine, only peers that prove who they are may do anything"),
        (
            OPEN % ", require_login: true",
            "from outside this machine, only peers that prove who they are may do anything",
        ),
        ("mesh: demo", "only programs on this machine reach its listeners"),
    ],
)
def test_one_line_says_what_is_open_to_whom(text: str, said: str) -> None:
    config = read(text)
    assert exposure(config) == said
    assert bool(exposure_warnings(config)) is said.startswith("open to everybody")


@pytest.mark.parametrize(
    "listener",
    [
        "{name: a, protocol: emm, listen: 'udp://0.0.0.0:1'}",
        "{name: a, protocol: hsp, listen: 'tls://0.0.0.0:1', tls: {cert: a, key: b, client_ca: c}}",
        "{name: a, protocol: wolpertinger, listen: 'tcp://0.0.0.0:1', require_trust: 3}",
        "{name: a, protocol: wolpertinger, listen: 'xmpp://h:1', xmpp: {domain: a.example, secret: s}}",
    ],
)
def test_a_listener_that_lets_only_the_proven_in_is_open_to_nobody_else(listener: str) -> None:
    assert exposure_warnings(read(f"mesh: demo\nlisteners: [{listener}]")) == []


@pytest.mark.parametrize("option", ["unauthenticated: accept", "public_key: any"])
def test_packets_that_anybody_can_make_are_open_to_everybody(option: str) -> None:
    text = f"mesh: demo\nlisteners: [{{name: a, protocol: emm, listen: 'udp://0.0.0.0:1', {option}}}]"
    assert [warning.path for warning in exposure_warnings(read(text))] == ["listeners[0]"]

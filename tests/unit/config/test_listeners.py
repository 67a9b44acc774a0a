"""Listeners and links: common keys, limits, and the options of whatever protocol they speak."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from gateway.config import Limits, Link, Listener
from gateway.config.listeners import SPLIT
from gateway.protocols import protocols
from tests.unit.config.reading import FILE, expect_fault, faults, read

XMPP = "protocol: wolpertinger, listen: 'xmpp://127.0.0.1:5347'"
TLS = "tls: {cert: cert.pem, key: key.pem}"


def listener(keys: str) -> str:
    return f"mesh: demo\nlisteners: [{{name: a, {keys}}}]"


def link(keys: str) -> str:
    return f"mesh: demo\npeers: [{{name: a, {keys}}}]"


TCP = "protocol: hsp, listen: 'tcp://127.0.0.1:1'"
UDP = "protocol: emm, listen: 'udp://127.0.0.1:1'"


@pytest.mark.parametrize(
    ("keys", "where", "said"),
    [
        (f"{TCP}, types: {{70000: temp.high}}", "types.70000", "expected"),
        (f"{TCP}, unauthenticated: reject", "unauthenticated", "unknown key"),
        (f"{UDP}, freshnes: off", "freshnes", "did you mean freshness?"),
        ("protocol: mqtt, listen: 'tcp://127.0.0.1:1', topic: x", "protocol", "emm, "),
        (f"{UDP}, connections: 0", "connections", "1"),
        ("protocol: emm, listen: 'udp://a:65536'", "listen", "port 65536 is above 65535"),
        ("protocol: emm, listen: 'tcp://127.0.0.1:1'", "listen", "expected one of quic://, udp://"),
        ("protocol: hsp, listen: 'tls://127.0.0.1:1'", "tls", "needs tls: {cert, key}"),
        (f"{TCP}, {TLS}", "tls", "has no TLS"),
        (f"{UDP}, proxy_protocol: true", "proxy_protocol", "udp:// has no PROXY header"),
        (f"{TCP}, proxy_from: [127.0.0.1]", "proxy_from", "proxy_from needs proxy_protocol"),
        (f"{TCP}, proxy_protocol: true, proxy_from: [10.0.0.1/8]", "proxy_from[0]", "expected an address or a network"),
        (f"{TCP}, proxy_protocol: true, proxy_from: [balancer]", "proxy_from[0]", "expected an address or a network"),
        (f"{TCP}, xmpp: {{domain: a.example, secret: x}}", "xmpp", "only xmpp:// is a component of a server"),
        (
            XMPP.replace("5347", "0") + ", xmpp: {domain: a, secret: x}",
            "listen",
            "expected the port where the server waits for its components",
        ),
        (f"{TCP}, origins: ['*']", "origins", "only ws://"),
        ("protocol: yamp, listen: 'ws://127.0.0.1:1/mesh?x=1'", "listen", "an address without a query"),
        (f"{UDP}, subscribe: [a.>, b..c]", "subscribe[1]", "a pattern has no empty token"),
    ],
)
def test_a_faulty_listener_is_told_where_it_stands(keys: str, where: str, said: str) -> None:
    expect_fault(listener(keys), f"listeners[0].{where}", said, line=2)


@pytest.mark.parametrize(
    ("keys", "where", "said"),
    [
        ("protocol: hsp, connect: 'tcp://127.0.0.1:0'", "connect", "a port from 1"),
        ("protocol: hsp, connect: 'tls://127.0.0.1:1', tls: {cert: a.pem}", "tls", "belong together"),
        ("protocol: hsp, connect: 'tcp://127.0.0.1:1', tls: {ca: a.pem}", "tls", "has no TLS"),
        ("protocol: yamp, connect: 'ws://127.0.0.1:1/mesh?x=1'", "connect", "an address without a query"),
        ("protocol: wolpertinger, connect: 'xmpp://127.0.0.1:5347'", "connect", "xmpp:// is a listener's"),
    ],
)
def test_a_faulty_link_is_told_where_it_stands(keys: str, where: str, said: str) -> None:
    expect_fault(link(keys), f"peers[0].{where}", said, line=2)


def test_a_management_port_that_is_none_is_told_with_the_largest_there_is() -> None:
    expect_fault("mesh: demo\nedge: {management: 'a:99999'}", "edge.management", "port 99999 is above 65535")


class TestTheProtocolsOwnKeys:
    @pytest.mark.parametrize("name", sorted(protocols()))
    def test_a_listener_of_any_protocol_takes_its_options(self, name: str) -> None:
        spec = protocols()[name]
        scheme = min(spec.transports - {"tls", "wss", "quic"})
        config = read(listener(f"protocol: {name}, listen: '{scheme}://127.0.0.1:1'"))
        assert config.endpoint("a").options == spec.options()

    def test_options_keep_what_was_said(self) -> None:
        config = read(listener("protocol: hsp, listen: 'tcp://127.0.0.1:1', types: {17: temp.high}"))
        assert config.endpoint("a").options.model_dump()["types"].keys() == {17}

    @pytest.mark.parametrize("word", SPLIT)
    def test_our_own_words_for_the_kinds_of_keys_are_no_keys(self, word: str) -> None:
        expect_fault(
            listener(f"protocol: emm, listen: 'udp://127.0.0.1:1', {word}: {{}}"), f"listeners[0].{word}", "unknown key"
        )

    @pytest.mark.parametrize("name", sorted(protocols()))
    def test_no_protocol_takes_a_key_that_all_listeners_take(self, name: str) -> None:
        common = Listener.model_fields.keys() | Link.model_fields.keys() | Limits.model_fields.keys()
        assert not common & protocols()[name].options.model_fields.keys()

    @pytest.mark.parametrize("name", sorted(protocols()))
    def test_a_protocols_secrets_are_of_a_type_that_hides_them(self, name: str) -> None:
        assert [path for path in secret_names(protocols()[name].options) if not path.endswith(": SecretStr")] == []


def secret_names(model: type[BaseModel]) -> list[str]:
    """Fields that hold a secret by their name, with their type; looks into the models that fields hold."""
    found = []
    for name, field in model.model_fields.items():
        hides = "SecretStr" if SecretStr.__name__ in str(field.annotation) else str(field.annotation)
        if re.search(r"password|secret|cluster_key|^users$", name):
            found.append(f"{model.__name__}.{name}: {hides}")
        inner = [part for part in (field.annotation, *getattr(field.annotation, "__args__", ())) if is_model(part)]
        found += [path for part in inner for path in secret_names(part)]
    return found


def is_model(part: object) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


class TestLimits:
    def test_a_limit_that_equals_the_default_still_wins_over_the_meshs(self) -> None:
        text = "limits: {connections: 7}\n" + listener("protocol: emm, listen: 'udp://127.0.0.1:1', connections: 10000")
        assert read(text).listener_limits("a").connections == 10_000
        assert read(text) != read(text.replace(", connections: 10000", ""))

    def test_a_limit_in_a_listener_holds_there_and_the_others_are_the_meshs(self) -> None:
        text = "limits: {connections: 7, idle_seconds: 9}\n" + listener(
            "protocol: emm, listen: 'udp://127.0.0.1:1', connections: 3"
        )
        limits = read(text).listener_limits("a")
        assert (limits.connections, limits.idle_seconds, limits.handshake_seconds) == (3, 9, 5)

    def test_a_listener_may_lift_a_limit(self) -> None:
        text = "limits: {frames_per_second_per_session: 10}\n" + listener(
            "protocol: emm, listen: 'udp://127.0.0.1:1', frames_per_second_per_session: null"
        )
        assert read(text).listener_limits("a").frames_per_second_per_session is None

    def test_every_limit_may_stand_in_a_listener(self) -> None:
        keys = ", ".join(f"{name}: 1" for name in Limits.model_fields)
        limits = read(listener(f"protocol: emm, listen: 'udp://127.0.0.1:1', {keys}")).listener_limits("a")
        assert set(limits.model_dump().values()) == {1}


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            ("udp://127.0.0.1:5050", "127.0.0.1", 5050),
            ("udp://[::1]:5050", "::1", 5050),
            ("udp://mesh.example.org:0", "mesh.example.org", 0),
            ("udp://10.255.0.1:65535", "10.255.0.1", 65535),
        ],
    )
    def test_an_address_is_a_scheme_a_host_and_a_port(self, text: str, host: str, port: int) -> None:
        address = read(listener(f"protocol: emm, listen: '{text}'")).listeners[0].address
        assert (address.host, address.port, str(address)) == (host, port, text)

    @pytest.mark.parametrize(
        "text",
        ["127.0.0.1:1", "udp://127.0.0.1", "udp://:1", "udp://a:1/x", "udp://a b:1", "udp://a:x"],
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        expect_fault(listener(f"protocol: emm, listen: '{text}'"), "listeners[0].listen", "expected scheme://host:port")

    def test_a_websocket_may_have_a_path(self) -> None:
        config = read(listener("protocol: yamp, listen: 'ws://127.0.0.1:1/mesh'"))
        assert config.listeners[0].address.path == "/mesh"


class TestTls:
    def test_a_link_may_trust_whom_the_system_trusts(self) -> None:
        assert read(link("protocol: hsp, connect: 'tls://127.0.0.1:1'")).peers[0].tls is None

    def test_a_links_files_start_from_the_file(self) -> None:
        tls = read(link("protocol: hsp, connect: 'tls://127.0.0.1:1', tls: {ca: a.pem}")).peers[0].tls
        assert tls is not None
        assert tls.ca == Path(FILE.parent / "a.pem")


class TestWhatOnlySomeSchemesHave:
    def test_streams_may_have_one(self) -> None:
        config = read(listener("protocol: hsp, listen: 'tcp://127.0.0.1:1', proxy_protocol: true"))
        assert config.listeners[0].proxy_protocol

    def test_a_component_of_an_xmpp_server_needs_its_domain_and_the_secret(self) -> None:
        expect_fault(listener(XMPP), "listeners[0].xmpp", "xmpp:// needs xmpp: {domain, secret}")
        config = read(listener(f"{XMPP}, xmpp: {{domain: mesh.example.org, secret: hunter2}}"))
        xmpp = config.listeners[0].xmpp
        assert xmpp is not None
        assert (xmpp.domain, xmpp.secret.get_secret_value()) == ("mesh.example.org", "hunter2")
        assert "hunter2" not in repr(config)

    @pytest.mark.parametrize("domain", ["", "mesh@example.org", "mesh.example.org/edge", ".", "a b", "-a", "a" * 255])
    def test_the_domain_of_a_component_is_a_host_name(self, domain: str) -> None:
        text = listener(f"{XMPP}, xmpp: {{domain: '{domain}', secret: x}}")
        expect_fault(text, "listeners[0].xmpp.domain", "expected the domain of a component")

    @pytest.mark.parametrize(
        ("origins", "origin", "host", "let_in"),
        [
            ("null", None, "127.0.0.1:5043", True),
            ("null", "http://127.0.0.1:8000", "127.0.0.1:5043", True),
            ("null", "http://[::1]:8000", "[::1]:5043", True),
            ("null", "http://Broker", "broker:5043", True),
            ("null", "https://MESH.example.org", "mesh.example.org", False),
            ("null", "https://elsewhere.example.org", "127.0.0.1:5043", False),
            ("null", "null", "127.0.0.1:5043", False),
            ("null", "http://[::1", "[::1:5043", False),
            ("[]", "http://127.0.0.1:8000", "127.0.0.1:5043", False),
            ("[]", None, "127.0.0.1:5043", True),
            ("['https://Pages.example.org']", "https://pages.example.org", "127.0.0.1:5043", True),
            ("['https://pages.example.org']", "http://pages.example.org", "127.0.0.1:5043", False),
            ("['https://pages.example.org']", "https://pages.example.org.evil.example", "127.0.0.1:5043", False),
            ("['null']", "null", "127.0.0.1:5043", True),
            ("['*']", "https://elsewhere.example.org", "127.0.0.1:5043", True),
        ],
    )
    def test_pages_that_may_open_a_websocket(self, origins: str, origin: str | None, host: str, let_in: bool) -> None:
        config = read(listener(f"protocol: yamp, listen: 'ws://127.0.0.1:1', origins: {origins}"))
        assert config.listeners[0].lets_in(origin, host) is let_in

    def test_over_tls_a_page_of_the_same_host_may_open_a_websocket_whatever_its_name(self) -> None:
        """A stranger's name that leads here has no certificate of ours."""
        tls = "tls: {cert: cert.pem, key: key.pem}"
        config = read(listener(f"protocol: yamp, listen: 'wss://127.0.0.1:1', {tls}"))
        assert config.listeners[0].lets_in("https://mesh.example.org", "mesh.example.org:5043")

    @pytest.mark.parametrize("origin", ["pages.example.org", "https://pages.example.org/", "", "https://"])
    def test_what_no_browser_sends_as_an_origin_is_refused(self, origin: str) -> None:
        text = listener(f"protocol: yamp, listen: 'ws://127.0.0.1:1', origins: ['{origin}']")
        expect_fault(text, "listeners[0].origins[0]", "expected scheme://host[:port]")


def test_listeners_and_links_are_found_by_name() -> None:
    text = (
        listener("protocol: emm, listen: 'udp://127.0.0.1:1'")
        + "\npeers: [{name: b, protocol: hsp, connect: 'tcp://h:1'}]"
    )
    config = read(text)
    assert [config.endpoint(name).protocol for name in ("a", "b")] == ["emm", "hsp"]
    with pytest.raises(KeyError) as missing:
        config.endpoint("c")
    assert missing.value.args == ("c",)


def test_a_listener_that_is_no_mapping_is_refused() -> None:
    assert [fault.path for fault in faults("mesh: demo\nlisteners: [tcp]")] == ["listeners[0]"]

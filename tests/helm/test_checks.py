"""Tests what `helm test` asserts on servers of our own: each check passes where it should, and can fail."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry

from gateway import __version__
from gateway.config import parse
from gateway.core.address import HostPort, is_private
from gateway.observability.management import Checks, Management
from tests.helm.chart import CHART, find, module_at, of_kind, render

LISTENERS = [
    {"name": "devices", "protocol": "emm", "transport": "udp", "port": 5050, "servicePort": 50},
    {
        "name": "plc",
        "protocol": "hsp",
        "transport": "tls",
        "port": 5141,
        "tls": {"secret": "plc", "clientCa": {"secret": "ca", "key": "ca.crt"}},
    },
    {"name": "hidden", "protocol": "emp", "transport": "tcp", "port": 5040, "expose": False},
]
Plan = dict[str, Any]


def plan_of(**values: Any) -> Plan:
    plan: Plan = json.loads(find(render(**values), "ConfigMap", "-tests")["data"]["plan.json"])
    return plan


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return module_at(CHART / "files" / "check.py")


class TestPlan:
    def test_it_names_every_part_and_every_listener_of_the_service(self) -> None:
        plan = plan_of(listeners=LISTENERS, edge={"replicas": 2}, tests={"timeoutSeconds": 7})
        assert plan == {
            "mesh": "demo",
            "timeout_seconds": 7,
            "management": [
                ["router", "http://demo-meshgate-router:9641"],
                ["edge 0", "http://demo-meshgate-edge-0.demo-meshgate-edge.mesh.svc:9640"],
                ["edge 1", "http://demo-meshgate-edge-1.demo-meshgate-edge.mesh.svc:9640"],
            ],
            "listeners": [
                {"name": "devices", "transport": "udp", "host": "demo-meshgate", "port": 50, "client_ca": False},
                {"name": "plc", "transport": "tls", "host": "demo-meshgate", "port": 5141, "client_ca": True},
            ],
            "closed": [["demo-meshgate", 9640]],
            "policed": [],
            "signed": True,
        }

    def test_management_ports_answer_under_the_names_that_it_asks_for(self) -> None:
        addresses = [url.removeprefix("http://") for _, url in plan_of()["management"]]
        assert [address for address in addresses if not is_private(address)] == []

    def test_where_policies_are_enforced_it_names_what_they_close(self) -> None:
        policed = plan_of(edge={"replicas": 1}, tests={"networkPolicyEnforced": True})["policed"]
        assert policed == [["demo-meshgate-router", 9641], ["demo-meshgate-edge-0.demo-meshgate-edge.mesh.svc", 9640]]

    def test_where_edges_are_on_their_nodes_network_no_policy_closes_them(self) -> None:
        policed = plan_of(edge={"hostNetwork": True}, tests={"networkPolicyEnforced": True})["policed"]
        assert policed == [["demo-meshgate-router", 9641]]

    def test_split_services_are_closed_both(self) -> None:
        plan = plan_of(listeners=LISTENERS, service={"split": True})
        assert plan["closed"] == [["demo-meshgate-udp", 9640], ["demo-meshgate-tcp", 9640]]

    def test_without_a_listener_for_signed_packets_none_is_sent(self) -> None:
        assert plan_of(listeners=LISTENERS[1:])["signed"] is False

    def test_the_packages_probe_finds_the_service_in_the_tests_configuration(self, tmp_path: Path) -> None:
        identity = {"node": "8a6f2a7e-6a0b-4c55-9a4e-0a5c1b8d4f11", "key": "own"}
        for listeners, address in ((LISTENERS, ["udp://demo-meshgate:50"]), (LISTENERS[1:], [])):
            objects = render(listeners=listeners, settings={"identity": identity})
            text = find(objects, "ConfigMap", "-tests")["data"]["meshgate.yaml"]
            config = parse(text, tmp_path / "config" / "meshgate.yaml")
            assert [str(each.listen) for each in config.listeners] == address
            assert config.identity.key == "own"

    def test_each_kind_of_check_is_a_pod(self, check: ModuleType) -> None:
        pods = of_kind(render(), "Pod")
        assert {pod["spec"]["containers"][0]["command"][2] for pod in pods} == set(check.CHECKS)
        for pod in pods:
            assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"

    def test_nothing_but_pods_is_a_hook_of_the_tests(self) -> None:
        """`helm test --logs` asks for the logs of each."""
        hooks = [each for each in render() if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"]
        assert {each["kind"] for each in hooks} == {"Pod"}


@pytest.fixture
def serve_management() -> Iterator[Callable[..., str]]:
    serving: list[Management] = []

    def serve(mesh: str = "demo", *, ready: bool = True) -> str:
        management = Management(
            HostPort("127.0.0.1", 0),
            CollectorRegistry(),
            Checks(dict, lambda: {} if ready else {"kafka": "away"}),
            config=lambda: {"mesh": mesh},
        )
        management.start()
        serving.append(management)
        return f"http://127.0.0.1:{management.port}"

    yield serve
    for each in serving:
        each.stop()


def plan(**parts: Any) -> Plan:
    return {
        "mesh": "demo", "timeout_seconds": 0, "management": [], "listeners": [], "closed": [], "policed": [],
        "signed": False, **parts,
    }  # fmt: skip


def outcomes(check: ModuleType, kind: str, given: Plan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The checks that failed, by name; and the exit code says the same."""
    code = check.main(kind, given)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    failed = [line.removeprefix("FAILED  ") for line in lines if line.startswith("FAILED")]
    assert code == (1 if failed else 0)
    return failed


class TestHealth:
    def test_parts_that_are_ready_and_alike_pass(
        self, check: ModuleType, serve_management: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        parts = [["router", serve_management()], ["edge 0", serve_management()]]
        assert outcomes(check, "health", plan(management=parts), capsys) == []

    def test_a_part_that_is_not_ready_fails(
        self, check: ModuleType, serve_management: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        parts = [["edge 0", serve_management(ready=False)]]
        (failed,) = outcomes(check, "health", plan(management=parts), capsys)
        assert failed.startswith("edge 0 is ready: HTTPError")

    def test_a_part_of_another_mesh_fails(
        self, check: ModuleType, serve_management: Callable[..., str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        parts = [["edge 0", serve_management("other")]]
        (failed,) = outcomes(check, "health", plan(management=parts), capsys)
        assert failed == "edge 0 is of the mesh demo: AssertionError: expected 'demo', found 'other'"

    def test_a_part_of_another_version_fails(
        self, check: ModuleType, serve_management: Callable[..., str], capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        old = serve_management()
        versions = {old: "0.0.1"}
        get = check.get

        def answer(url: str) -> Any:
            base, _, page = url.rpartition("/")
            return {"version": versions.get(base, __version__)} if page == "version" else get(url)

        monkeypatch.setattr(check, "get", answer)
        parts = [["router", serve_management()], ["edge 0", old]]
        (failed,) = outcomes(check, "health", plan(management=parts), capsys)
        assert failed.startswith("edge 0 has the others' version")

    def test_it_waits_for_what_is_still_coming_up(self, check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(check.time, "sleep", lambda _seconds: None)
        attempts = iter([ConnectionRefusedError(), TimeoutError(), None])

        def attempt() -> None:
            if (failed := next(attempts)) is not None:
                raise failed

        check.eventually({"timeout_seconds": 60}, attempt)
        assert next(attempts, "used up") == "used up"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that signs itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    signed = built.sign(key, hashes.SHA256())
    pem, pkcs8, clear = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "both.pem"
    path.write_bytes(signed.public_bytes(pem) + key.private_bytes(pem, pkcs8, clear))
    return path


@pytest.fixture
def listen() -> Iterator[Callable[..., int]]:
    """A server on a port of its own that greets whom it lets in, until the test ends."""
    servers: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(context: ssl.SSLContext | None = None) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threads.append(threading.Thread(target=greet, args=(server, context), daemon=True))
        threads[-1].start()
        port: int = server.getsockname()[1]
        return port

    yield serve
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join(timeout=10)


def greet(server: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        try:
            peer, _ = server.accept()
        except OSError:
            return
        with closing(peer):
            try:
                with closing(context.wrap_socket(peer, server_side=True) if context else peer) as one:
                    one.sendall(b"hello")
            except OSError:
                continue


def listener(port: int, transport: str, *, client_ca: bool = False) -> Plan:
    return {"name": "plc", "host": "127.0.0.1", "port": port, "transport": transport, "client_ca": client_ca}


def server_tls(certificate: Path, *, wants_client: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if wants_client:
        context.load_verify_locations(certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class TestListeners:
    def test_open_ones_pass_with_and_without_tls(
        self, check: ModuleType, listen: Callable[..., int], certificate: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tls = listen(server_tls(certificate, wants_client=False))
        given = plan(listeners=[listener(listen(), "tcp"), listener(tls, "tls")])
        assert outcomes(check, "listeners", given, capsys) == []

    def test_one_that_nobody_serves_fails(self, check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
        (failed,) = outcomes(check, "listeners", plan(listeners=[listener(unused_port(), "tcp")]), capsys)
        assert failed.startswith("plc takes connections: ConnectionRefusedError")

    def test_one_that_speaks_no_tls_fails(
        self, check: ModuleType, listen: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (failed,) = outcomes(check, "listeners", plan(listeners=[listener(listen(), "tls")]), capsys)
        assert "SSLError" in failed


class TestDenials:
    OF_THE_POD = ("this pod is not root", "this pod's file system is read-only")

    def failed(self, check: ModuleType, given: Plan, capsys: pytest.CaptureFixture[str]) -> list[str]:
        """Without what is said of the pod itself: this test may run as anybody."""
        return [each for each in outcomes(check, "denials", given, capsys) if not each.startswith(self.OF_THE_POD)]

    def test_a_closed_port_passes_and_an_open_one_fails(
        self, check: ModuleType, listen: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        port = listen()
        given = plan(closed=[["127.0.0.1", unused_port()], ["127.0.0.1", port]], policed=[["127.0.0.1", port]])
        assert self.failed(check, given, capsys) == [
            f"127.0.0.1:{port} is closed: AssertionError: it was let through",
            f"127.0.0.1:{port} is not for this pod: AssertionError: it was let through",
        ]

    def test_a_listener_that_wants_certificates_must_refuse_who_has_none(
        self, check: ModuleType, listen: Callable[..., int], certificate: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        strict, lax = (listen(server_tls(certificate, wants_client=wants)) for wants in (True, False))
        assert self.failed(check, plan(listeners=[listener(strict, "tls", client_ca=True)]), capsys) == []
        (failed,) = self.failed(check, plan(listeners=[listener(lax, "tls", client_ca=True)]), capsys)
        assert failed == "plc refuses peers without a certificate: AssertionError: it was let through"

    def test_a_forged_packet_that_is_answered_fails(
        self, check: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(check, "probe", lambda _seconds, *, forged: None)  # noqa: ARG005
        (failed,) = self.failed(check, plan(signed=True), capsys)
        assert failed == "a packet with a forged signature gets no answer: AssertionError: it was let through"

    def test_a_probe_that_cannot_be_sent_is_no_refusal(
        self, check: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "meshgate.yaml").write_text("mesh: demo\ntrust: keys.yaml\n")
        (tmp_path / "keys.yaml").write_text("nodes: {}\n")
        monkeypatch.setattr(check, "CONFIG", tmp_path / "meshgate.yaml")
        (failed,) = self.failed(check, plan(signed=True), capsys)
        assert "LookupError: the trust store has no gateway entry" in failed

    def test_a_token_of_kubernetes_fails(
        self, check: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(check, "TOKEN", tmp_path)
        (failed,) = self.failed(check, plan(), capsys)
        assert failed.startswith("this pod cannot speak to the Kubernetes API")

"""The management address: where it may be, and whom it answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse

import pytest
from prometheus_client import CollectorRegistry

from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.observability.management import BODY_BYTES, MOST_ASKING, Checks, Management, PageAnswer, Served
from tests.unit.client.shell import until

CONFIG = {"mesh": "demo"}
connect = socket.create_connection
PATHS = ["/metrics", "/config", "/version", "/healthz/ready", "/nothing"]


@contextmanager
def managed(host: str = "127.0.0.1", names: tuple[str, ...] = ()) -> Iterator[Management]:
    management = Management(
        HostPort(host, 0), CollectorRegistry(), Checks(dict, dict), config=lambda: CONFIG, names=names,
        served=Served(
            commands={"/peers/": lambda _: PageAnswer(202, "text/plain", b"")},
            acts={"/acts/": lambda request: PageAnswer(202, "text/plain", request.below.encode() + request.body)},
        ),
    )  # fmt: skip
    management.start()
    try:
        yield management
    finally:
        management.stop()


@contextmanager
def asked(
    management: Management, method: str, path: str, body: bytes | None = None, **headers: str
) -> Iterator[HTTPResponse]:
    connection = HTTPConnection("127.0.0.1", management.port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        yield connection.getresponse()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1", "::"])  # noqa: S104 - for a moment
def test_it_answers_at_whatever_address_it_is_given(host: str) -> None:
    with managed(host) as management:
        assert MeshPart("one", "--edge", HostPort(host, management.port).reachable).json("/config") == CONFIG


@pytest.mark.parametrize("path", PATHS)
def test_a_name_that_anybody_can_lead_here_reads_nothing(path: str) -> None:
    with managed() as management, asked(management, "GET", path, Host="evil.example.com:9640") as answer:
        assert answer.status == 403
        assert b"management_hosts" in answer.read()


def test_a_name_that_anybody_can_lead_here_commands_nothing() -> None:
    with managed() as management, asked(management, "POST", "/peers/1/kick", Host="evil.example.com") as answer:
        assert answer.status == 403


@pytest.mark.parametrize(
    "host",
    [
        "10.1.2.3:9640", "[fd00::1]:9640", "localhost:9640", "edge-0:9640", "mesh-edge.mesh.svc:9640",
        "edge-0.mesh-edges.mesh.svc.cluster.local:9640", "mesh.example.org:9640", "MESH.example.org.",
    ],
)  # fmt: skip
def test_scrapers_are_answered_by_address_by_service_name_and_by_configured_name(host: str) -> None:
    with managed(names=("mesh.example.org",)) as management, asked(management, "GET", "/metrics", Host=host) as answer:
        assert answer.status == 200


def test_who_is_refused_at_the_command_line_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with managed() as management:
        here = ("127.0.0.1", management.port)
        monkeypatch.setattr(socket, "create_connection", lambda _, *rest: connect(here, *rest))
        with pytest.raises(SetupError, match="management_hosts"):
            MeshPart("the edge", "--edge", HostPort("mesh.example.com", 9640)).json("/config")


@pytest.mark.parametrize("path", PATHS)
def test_a_head_has_the_status_and_length_of_the_page_without_its_body(path: str) -> None:
    with managed() as management:
        with asked(management, "GET", path) as whole:
            length = len(whole.read())
        with asked(management, "HEAD", path) as head:
            assert (head.status, int(head.headers["Content-Length"])) == (whole.status, length)
            assert head.read() == b""


@pytest.mark.parametrize(
    ("path", "origin", "status"),
    [
        ("/acts/kick", "http://127.0.0.1:9640", 202),
        ("/acts/kick", "https://127.0.0.1:9640", 202),
        ("/acts/kick", "http://127.0.0.1:9641", 403),
        ("/acts/kick", "http://localhost:9640", 403),
        ("/acts/kick", "http://evil.example.com", 403),
        ("/acts/kick", "null", 403),
        ("/acts/kick", "", 403),
        ("/peers/1/kick", "http://127.0.0.1:9640", 403),
        ("/nothing", "http://127.0.0.1:9640", 403),
    ],
)
def test_only_acts_are_taken_from_a_page_and_only_from_the_own_one(path: str, origin: str, status: int) -> None:
    with managed() as management:
        with asked(management, "POST", path, Host="127.0.0.1:9640", Origin=origin) as answer:
            assert answer.status == status


def test_a_body_is_read_up_to_its_bound_and_no_further() -> None:
    with managed() as management:
        with asked(management, "POST", "/acts/echo", b"x" * BODY_BYTES) as answer:
            assert (answer.status, len(answer.read())) == (202, BODY_BYTES + len("echo"))
        with asked(management, "POST", "/acts/echo", b"x" * (BODY_BYTES + 1)) as answer:
            assert answer.status == 413


def test_headers_are_read_up_to_a_bound_and_no_part_of_them_is_answered() -> None:
    with managed() as management:
        with asked(management, "GET", "/version", None, **{"X-Long": "x" * 60_000}) as answer:
            assert answer.status == 200
        with connect(("127.0.0.1", management.port), 10) as peer, suppress(ConnectionError):
            peer.sendall(b"GET /version HTTP/1.0\r\n" + 3 * (b"X-Long: " + b"x" * 60_000 + b"\r\n") + b"\r\n")
            assert peer.recv(1) == b""


@pytest.mark.parametrize("length", ["-1", "1e3", "9" * 5000, "many"])
def test_a_length_that_is_none_is_refused(length: str) -> None:
    with managed() as management, asked(management, "POST", "/acts/echo", None, **{"Content-Length": length}) as answer:
        assert answer.status == 413


def test_who_asks_slowly_has_no_more_threads_than_there_are_and_keeps_nobody_out() -> None:
    with managed() as management, ExitStack() as ends:
        others = threading.active_count()
        slow = [ends.enter_context(connect(("127.0.0.1", management.port), 10)) for _ in range(MOST_ASKING + 5)]
        for one in slow[5:]:
            one.sendall(b"GET /version HTTP/1.1\r\n")
        with asked(management, "GET", "/version") as answer:
            assert answer.status == 200
        assert [one.recv(1) for one in slow[:5]] == [b""] * 5
        slow[-1].sendall(b"Host: 127.0.0.1\r\n\r\n")
        assert slow[-1].recv(12) == b"HTTP/1.0 200"
        until(lambda: threading.active_count() - others < MOST_ASKING)

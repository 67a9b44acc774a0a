"""The management address of a part: health, metrics, version, configuration; and the commands that a part takes.
Plain HTTP.

It runs in threads of its own, so it answers while the data path is stuck; that is when one wants to look.

Invariant: whatever is asked, it answers only under a name that no stranger can give out: an address, a name of this
machine or cluster, or one of the configuration. Else any site could have its own name lead here, and read along from a
browser that reaches this address.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway import __version__
from gateway.core.address import HostPort, host_name, is_private
from gateway.core.errors import SetupError

BODY_BYTES = 65_536
"""The largest body of a command: a subject and a small event's body. More is refused unread."""
REQUEST_BYTES = 2 * BODY_BYTES
"""A whole request has no more. A hundred headers of 64 KiB would be taken else, of each connection."""
REQUEST_SECONDS = 10  # a scraper that says nothing for so long is dropped
MOST_ASKING = 64
"""Connections at once, each of which has a thread. The oldest is cut for one more: a request takes milliseconds, and
who says a byte every nine seconds must not keep a probe of the cluster out."""
BEARER = "Bearer "
POLL_SECONDS = 0.1
"""The longest time that `stop` may take."""

Check = Callable[[], dict[str, str]]
"""Returns what is missing or away, by name; empty when all is well."""
READY = "/healthz/ready"
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""The headers of every answer. A page that needs more of a browser brings a policy of its own."""


class PageAnswer(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


Page = Callable[[Mapping[str, str]], PageAnswer]
"""Takes the query."""


class HttpRequest(NamedTuple):
    """A POST, and what its sender says and shows of itself.

    `below` stands below the command's path. `origin` is the page that a browser sends it for. `client` is the address
    that it comes from. `token` is the bearer's.
    """

    below: str
    host: str
    client: str = ""
    origin: str | None = None
    token: str = ""
    body: bytes = b""

    @property
    def is_of_own_page(self) -> bool:
        """True if no page asks, or one that this very address has served. A proxy before it may speak TLS."""
        return self.origin in (None, f"http://{self.host}", f"https://{self.host}")


Command = Callable[[HttpRequest], PageAnswer]
"""Answers a POST."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The probes of a part: each returns what is missing.

    `away`: what is outside and not there; `/healthz/ready` tells of it, and the part is ready all the same.
    """

    started: Check
    ready: Check
    away: Check = dict


@dataclass(frozen=True, slots=True)
class Served:
    """The pages and commands of a part, by path.

    `commands` are taken from programs alone. `acts` are taken from the own page too, and ask for a token themselves.
    """

    pages: Mapping[str, Page] = field(default_factory=dict)
    commands: Mapping[str, Command] = field(default_factory=dict)
    acts: Mapping[str, Command] = field(default_factory=dict)


class Management:
    """Serves `/healthz/started|live|ready`, `/metrics`, `/version`, `/config`, and what is `served` beside.

    `names`: the public names under which it answers too.
    """

    def __init__(
        self,
        address: HostPort,
        registry: CollectorRegistry,
        checks: Checks,
        *,
        config: Callable[[], dict[str, Any]],
        served: Served | None = None,
        names: Collection[str] = (),
    ) -> None:
        self._registry = registry
        self._checks = {"/healthz/started": checks.started, READY: checks.ready, "/healthz/live": dict}
        self._away = checks.away
        self._config = config
        self._served = served or Served()
        self._names = {host_name(name) for name in (address.host, *names)}
        try:
            self._server = _Server(address, _handler(self))
        except OSError as error:
            raise SetupError(f"management address {address}: {error.strerror}; another process may use it") from error
        self.port: int = self._server.server_address[1]
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(POLL_SECONDS,), name="management", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, accept: str, host: str) -> PageAnswer:
        """Answers a GET. `host` is the Host header, which browsers always send."""
        if not self._is_known(host):
            return _unknown(host)
        route, _, query = path.partition("?")
        if (check := self._checks.get(route)) is not None:
            missing = check()
            status: dict[str, Any] = {"status": "missing" if missing else "ok", "missing": missing}
            if route == READY and (away := self._away()):
                status["away"] = away
            return json_answer(503 if missing else 200, status)
        if route == "/metrics":
            encode, content_type = choose_encoder(accept)
            return PageAnswer(HTTPStatus.OK, content_type, encode(self._registry))
        if route == "/version":
            return json_answer(200, {"version": __version__})
        if route == "/config":
            return json_answer(200, self._config())
        if (page := self._served.pages.get(route)) is not None:
            return page(dict(parse_qsl(query)))
        return json_answer(404, {"error": "no such page"})

    def obey(self, path: str, request: HttpRequest) -> PageAnswer:
        """Obeys a POST. Browsers put their page's origin on each: any page that an operator looks at could send one."""
        if not self._is_known(request.host):
            return _unknown(request.host)
        commands = {**self._served.commands, **self._served.acts}
        route = next((prefix for prefix in commands if path.startswith(prefix)), None)
        if request.origin is not None and not (route in self._served.acts and request.is_of_own_page):
            return json_answer(403, {"error": "commands are not taken from web pages"})
        if route is None:
            return json_answer(404, {"error": "no such command"})
        return commands[route](request._replace(below=unquote(path.removeprefix(route))))

    def _is_known(self, host: str) -> bool:
        return is_private(host) or host_name(host) in self._names


def _unknown(host: str) -> PageAnswer:
    """Answers a browser that a stranger's name may have led here."""
    why = f"this address answers to an IP address, to a name without a domain, and to management_hosts; not to {host!r}"
    return json_answer(HTTPStatus.FORBIDDEN, {"error": why})


def json_answer(status: int, value: Any) -> PageAnswer:
    return PageAnswer(status, "application/json", json.dumps(value, default=str).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: HostPort, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._asking: dict[socket.socket, None] = {}
        super().__init__((address.host, address.port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._asking[request] = None
        if len(self._asking) > MOST_ASKING:
            oldest = next(iter(self._asking))
            self._asking.pop(oldest, None)
            with contextlib.suppress(OSError):  # it has just ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._asking.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that went away is no news."""


class _RequestReader:
    """Reads one request. Raises ConnectionError for one that is too long, so that no part of it passes for all."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = REQUEST_BYTES

    def readline(self, size: int) -> bytes:
        return self._counted(self._file.readline(min(size, self._left + 1)))

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(size))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise ConnectionError("the request is too long")
        return data

    def close(self) -> None:
        self._file.close()


def _handler(management: Management) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS

        def setup(self) -> None:
            super().setup()
            self.rfile: Any = _RequestReader(self.rfile)

        def do_GET(self) -> None:
            headers = self.headers
            self._answer(management.answer(self.path, headers.get("Accept", ""), headers.get("Host", "")))

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def do_POST(self) -> None:
            headers = self.headers
            length = headers.get("Content-Length", "0")
            if not (length.isdecimal() and len(length) < 10 and int(length) <= BODY_BYTES):
                self._answer(json_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": f"at most {BODY_BYTES} bytes"}))
                return
            body = self.rfile.read(int(length))
            token = headers.get("Authorization", "").removeprefix(BEARER)
            host, origin = headers.get("Host", ""), headers.get("Origin")
            self._answer(management.obey(self.path, HttpRequest("", host, self.client_address[0], origin, token, body)))

        def _answer(self, answer: PageAnswer) -> None:
            self.send_response(answer.status)
            sizes = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
            for name, value in (sizes | ALWAYS | dict(answer.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Scrapes are not logged."""

    return Handler

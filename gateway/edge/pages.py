"""Serves pages on the management address: the connected peers, the ending of a session, and a peer in a browser."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from gateway.config import Config
from gateway.core.address import parse_address
from gateway.edge.connection import Connection
from gateway.observability.management import HttpRequest, PageAnswer, json_answer
from gateway.protocols.actions import CloseReason

log = logging.getLogger(__name__)

PAGE_SPEAKS = "yamp"
"""The protocol of the example page."""
SHOWN_CHARACTERS = 100
"""The most of what was asked that stands in the log."""
NOTHING_OFFERED = '<script type="application/json" id="offered">[]</script>'


def describe(connection: Connection) -> dict[str, Any]:
    """Returns what pages show of a session."""
    source, session = connection.source, connection.session
    return {
        "session": source.session_id,
        "protocol": source.protocol,
        "listener": source.listener,
        "peer": source.peer,
        "node": source.node,
        "auth": source.auth.value,
        "dialled": session.settings.dialled,
        "connected_at": connection.connected_at,
        "received_frames": connection.received_frames,
        "delivered_frames": connection.outbox.delivered_frames,
        "queue_bytes": connection.outbox.queued_bytes,
        "pending_deliveries": connection.outbox.pending,
        "open_requests": session.open_requests,
        "served_requests": session.open_served,
    }


class PeersPage:
    """Shows and ends sessions for the management's threads. They read at once; the loop does what changes anything."""

    def __init__(self, sessions: Callable[[], Iterable[Connection]], loop: asyncio.AbstractEventLoop) -> None:
        self._sessions = sessions
        self._loop = loop

    def show(self, query: Mapping[str, str]) -> PageAnswer:
        """Answers `GET /peers` with all peers, and `?session=ID` with that one."""
        session_asked = query.get("session")
        shown = [
            describe(connection)
            for connection in self._sessions()
            if session_asked in (None, connection.source.session_id)
        ]
        return json_answer(HTTPStatus.OK, shown)

    def command(self, request: HttpRequest) -> PageAnswer:
        """Answers `POST /peers/ID/kick`."""
        session, _, verb = request.below.partition("/")
        if verb != "kick":
            return json_answer(HTTPStatus.NOT_FOUND, {"error": "the only command is kick"})
        answer = self.kick(session)
        log.info("a program at %s asks to kick %r: %d", request.client, session[:SHOWN_CHARACTERS], answer.status)
        return answer

    def kick(self, session: str) -> PageAnswer:
        """Ends a session: the peer hears a goodbye in its protocol's words, and the connection ends."""
        match = next((connection for connection in self._sessions() if connection.source.session_id == session), None)
        if match is None:
            return json_answer(HTTPStatus.NOT_FOUND, {"error": "no such session here"})
        self._loop.call_soon_threadsafe(match.leave, CloseReason.KICKED)
        return json_answer(HTTPStatus.ACCEPTED, {"kicked": session})


class ExamplePage:
    """A peer that runs in a browser. `listeners`: where each listener is bound; none before all are."""

    def __init__(self, config: Callable[[], Config], listeners: Callable[[], Mapping[str, str]]) -> None:
        self._config = config
        self._listeners = listeners

    def show(self, query: Mapping[str, str]) -> PageAnswer:  # noqa: ARG002 - the page itself looks at it
        """Answers `GET /example`, `?to=ws://HOST:PORT&subscribe=PATTERN`.

        A listener lets this page in without any `origins`, because it comes from the host that it connects to. It
        offers the listeners that a browser can speak to.
        """
        page = (files(__package__) / "browser_example.html").read_text()
        page = page.replace(NOTHING_OFFERED, NOTHING_OFFERED.replace("[]", json.dumps(self._offered())))
        security = {"Content-Security-Policy": _policy(page)}
        return PageAnswer(HTTPStatus.OK, "text/html; charset=utf-8", page.encode(), security)

    def _offered(self) -> list[dict[str, str | int]]:
        bound = {name: parse_address(address) for name, address in self._listeners().items()}
        return [
            {"name": listener.name, "scheme": listener.address.scheme, "port": bound[listener.name].port}
            for listener in self._config().listeners
            if listener.protocol == PAGE_SPEAKS and listener.address.is_websocket and listener.name in bound
        ]


def _policy(page: str) -> str:
    """Lets a browser run the scripts and styles that stand in the page, and no others."""
    hashes = {
        kind: " ".join(
            f"'sha256-{b64encode(sha256(inline.encode()).digest()).decode()}'"
            for inline in re.findall(rf"(?s)<{kind}>(.*?)</{kind}>", page)
        )
        for kind in ("script", "style")
    }
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src ws: wss:; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

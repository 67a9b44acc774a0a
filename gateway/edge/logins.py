"""Logins by a token: presented in the handshake of a WebSocket, or by a request on `mesh.login`.

A request is read and answered by its protocol's own mapping, as the router reads and answers all others. Neither the
raw log nor the router ever holds a token.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from gateway.auth.keyring import KeyRing
from gateway.config import Config, Endpoint
from gateway.core.clock import now_us
from gateway.core.content import JSON, decode_value, to_json
from gateway.core.errors import SetupError
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.subjects import LOGIN
from gateway.edge.carriers.peer import PeerIdentity
from gateway.edge.connection import Connection
from gateway.edge.tokens import TokenVerifier
from gateway.protocols import protocols
from gateway.protocols.actions import Delivery, LoginAsked
from gateway.protocols.error_bodies import error_body
from gateway.protocols.spec import CodecContext, Target
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import FrameSource, RawFrame

log = logging.getLogger(__name__)

_ENV = CodecContext(KeyRing())


class Logins:
    """Judges tokens by the configuration in force. Raises SetupError where its keys are of no use to begin with."""

    def __init__(self, config: Config) -> None:
        try:
            self._verifier = _verifier(config)
        except (OSError, ValueError) as broken:
            raise SetupError(f"auth.tokens.jwks: {broken}") from broken

    def reconfigure(self, config: Config) -> None:
        """Takes over other settings; those whose keys are of no use change nothing."""
        try:
            self._verifier = _verifier(config)
        except (OSError, ValueError) as broken:
            log.warning("auth.tokens.jwks: %s; tokens are judged as before", broken)

    @property
    def are_configured(self) -> bool:
        return self._verifier is not None

    def refresh(self) -> bool:
        """Takes over keys that have changed, and returns whether there are any. Reads files: called in a thread."""
        return self._verifier is not None and self._verifier.refresh()

    def verify(self, token: str, *, confidential: bool) -> PeerIdentity:
        """Returns who the token makes of a session. Raises Rejected(unauthenticated).

        `confidential`: nobody between the peer and us can have read the token.
        """
        if self._verifier is None:
            raise Rejected(Reason.UNAUTHENTICATED, "no token is taken here: auth.tokens is not configured")
        if not confidential:
            raise Rejected(Reason.UNAUTHENTICATED, "a token is taken only over TLS or from this machine")
        identity = self._verifier.verify(token)
        return replace(identity, holds=lambda: self._is_taken(token))

    def _is_taken(self, token: str) -> bool:
        try:
            return self._verifier is not None and bool(self._verifier.verify(token))
        except Rejected:
            return False

    def answer(self, connection: Connection, login: LoginAsked, endpoint: Endpoint) -> None:
        """Answers a request on `mesh.login`. A good token makes the session another node from here on."""
        try:
            if connection.session.settings.dialled:
                raise Rejected(Reason.UNAUTHENTICATED, "whom this edge has dialled does not log in to it")
            token = _token_in(connection.source, login, endpoint)
            identity = self.verify(token, confidential=connection.is_confidential)
            if connection.terms.redeliver_seconds:
                raise Rejected(Reason.UNAUTHENTICATED, "deliveries wait for the node that this session has already")
        except Rejected as refused:
            body = error_body(MeshError.FORBIDDEN, refused.detail)
            connection.answer(_answer(connection.source, login, endpoint, Kind.ERROR, body))
            connection.refuse_login()
        else:
            connection.identify(identity)
            connection.answer(_answer(connection.source, login, endpoint, Kind.RESPONSE, to_json(True)))


def _verifier(config: Config) -> TokenVerifier | None:
    return None if config.auth.tokens is None else TokenVerifier(config.auth.tokens)


def _token_in(source: FrameSource, login: LoginAsked, endpoint: Endpoint) -> str:
    """Returns the token in a request's body: a text, or a list that holds one, as protocols of calls carry it."""
    raw = RawFrame(login.frame, source, now_us())
    event = protocols()[endpoint.protocol].to_event(raw, "", endpoint.options, _ENV)
    value: Any = decode_value(event.body, event.content_type)
    if isinstance(value, bytes):
        value = event.text
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise Rejected(Reason.UNAUTHENTICATED, "expected a token")
    return value.strip().strip('"')


def _answer(source: FrameSource, login: LoginAsked, endpoint: Endpoint, kind: Kind, body: bytes) -> Delivery:
    event = Event(
        id="",
        kind=kind,
        subject=LOGIN,
        protocol=MESH,
        listener=source.listener,
        edge=source.edge,
        received_at=now_us(),
        correlation=login.request,
        content_type=JSON,
        body=body,
    )
    target = Target(endpoint.protocol, source.listener, source.facts, login.request)
    encoded = protocols()[endpoint.protocol].from_event(event, target, endpoint.options, _ENV)
    return Delivery("", kind, LOGIN, encoded.frame, encoded.stamps, request=login.request)

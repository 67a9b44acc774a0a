"""Connects to an address, and makes a client whose session is open."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.client.address import peer_address
from gateway.client.errors import UnreachableError
from gateway.client.stream import OnEvent, StreamClient
from gateway.core.address import Address, is_this_machine
from gateway.protocols import protocols
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.spec import Options, ProtocolSpec

CONNECT_SECONDS = 10.0
SERVE_SECONDS = 3600.0
"""A request we serve is its requester's to give up on, not ours; this only bounds what was forgotten about."""
FRAME_BYTES = 1_048_576


@asynccontextmanager
async def connect(
    protocol: str, where: str, port: int | None = None, *, password: str = "", **settings: Any
) -> AsyncIterator[StreamClient]:
    """A client whose session is open. `where`: a host, `host:port`, or a url. `settings`: as of `open_client`.

    `password`: of the user in an `xmpp://` url. Raises UnreachableError.
    """
    address = peer_address(protocols()[protocol], where, port, tls=settings.get("tls") is not None, password=password)
    client = await open_client(protocol, address, **settings)
    try:
        yield client
    finally:
        await client.close()


def client_settings(address: Address, connect_seconds: float = CONNECT_SECONDS) -> SessionSettings:
    """Returns the settings of a client's session."""
    return SessionSettings(
        token=os.urandom,
        dialled=True,
        frame_bytes=FRAME_BYTES,
        handshake_seconds=connect_seconds,
        request_timeout_seconds=SERVE_SECONDS,
        message_transport=address.keeps_messages,
    )


async def begin(
    client: StreamClient,
    address: Address,
    tls: ssl.SSLContext | None,
    server_name: str | None = None,
    connect_seconds: float = CONNECT_SECONDS,
) -> None:
    """Opens the client's session. Raises UnreachableError."""
    try:
        async with asyncio.timeout(connect_seconds):
            await client.begin(address, tls, server_name)
    except TimeoutError as late:
        raise UnreachableError(str(address), f"no session within {connect_seconds:g} s") from late


async def open_client(
    protocol: str,
    address: Address,
    *,
    options: Mapping[str, Any] | None = None,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    connect_seconds: float = CONNECT_SECONDS,
    on_event: OnEvent | None = None,
) -> StreamClient:
    """Goes where the peer sends it, once. `on_event` is given each event as it comes, instead of `events()`.

    Raises UnreachableError.
    """
    spec = protocols()[protocol]

    async def dial(where: Address) -> StreamClient:
        settings = client_settings(where, connect_seconds)
        client = StreamClient(spec, client_options(spec, options or {}), settings, str(where), on_event)
        await begin(client, where, tls, server_name, connect_seconds)
        return client

    try:
        return await dial(address)
    except UnreachableError as refused:
        if refused.redirect_url is None:
            raise
        elsewhere = redirected(spec, address, refused.redirect_url)
    return await dial(elsewhere)


def redirected(spec: ProtocolSpec[Any], address: Address, url: str) -> Address:
    """Returns where the peer at an address sends a client.

    Raises UnreachableError if anybody could read there what nobody can here: a token and all that is published.
    """
    elsewhere = peer_address(spec, url)
    if _is_confidential(address) and not _is_confidential(elsewhere):
        raise UnreachableError(str(address), f"it sends us to {elsewhere}, which has no TLS")
    return elsewhere


def _is_confidential(address: Address) -> bool:
    return address.has_tls or is_this_machine(address.host)


def client_options(spec: ProtocolSpec[Any], options_given: Mapping[str, Any]) -> Options:
    """The protocol's options as a client wants them: named subjects and kinds wherever the envelope can carry them."""
    defaults = {"envelope": "always"} if "envelope" in spec.options.model_fields else {}
    options: Options = spec.options.model_validate(defaults | dict(options_given))
    return options

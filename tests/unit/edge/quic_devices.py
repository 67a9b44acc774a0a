"""A QUIC listener for devices, who connects to it, and what the edge makes of their packets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aioquic.quic.packet import QuicErrorCode

from tests.unit.edge.certificates import Authority
from tests.unit.edge.foreign_quic import ForeignQuic
from tests.unit.edge.running import RunningEdge, configured, listener, running, until

PACKET = b"\x01 a packet, as far as the edge looks at it"
CRYPTO = QuicErrorCode.CRYPTO_ERROR


def devices(authority: Authority, **settings: Any) -> dict[str, Any]:
    wanted = {name: settings.pop(name) for name in ("client_ca", "crl") if name in settings}
    return listener("devices", "emm", "quic", tls=authority.signs("mesh") | wanted, **settings)


def peer_of(edge: RunningEdge, authority: Authority, files: dict[str, str] | None = None, **given: Any) -> ForeignQuic:
    peer = ForeignQuic(edge.port("devices"), authority.ca, files, **given)
    edge.at_the_end.append(peer.vanish)
    return peer


@asynccontextmanager
async def connected(authority: Authority, **settings: Any) -> AsyncIterator[tuple[RunningEdge, ForeignQuic]]:
    """Yields an edge, and a peer with a connection to its listener."""
    async with running(configured(devices(authority, **settings))) as edge:
        yield edge, await peer_of(edge, authority).connect()


def begun_by(edge: RunningEdge, authority: Authority, **given: Any) -> ForeignQuic:
    """A peer that says its first word and takes none."""
    peer = peer_of(edge, authority, **given)
    peer.silent = True
    peer.begin()
    return peer


def names(edge: RunningEdge) -> list[str]:
    """Returns the source by which the raw log knows whom the packets came from."""
    return [frame.source.peer for frame in edge.kafka.raw() if frame.source.protocol == "emm"]


async def outcomes(edge: RunningEdge, count: int = 1) -> list[tuple[str, str]]:
    await until(lambda: len(edge.kafka.outcomes()) >= count)
    return [(row.outcome, row.detail) for row in edge.kafka.outcomes()]

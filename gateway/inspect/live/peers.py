"""Lists who is connected, over all edges that were asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from gateway.core.event import SECOND_US
from gateway.core.ids import SessionId
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.records.cloud_event import rfc3339

Peer = dict[str, Any]
"""A peer as `/peers` shows it, with the edge that it is connected to, and times as everywhere else."""


def connected(edges: Iterable[MeshPart], session: str = "") -> list[Peer]:
    """Returns all peers, or the one with this session; by edge, then in the order in which they came."""
    path = f"/peers?session={quote(session)}" if session else "/peers"
    return [_peer(told) for edge in edges for told in edge.json(path)]


def away(edges: Iterable[MeshPart]) -> list[Peer]:
    """Returns the links and listeners whose other side is not there, as rows without a session."""
    return [
        {
            **told,
            "session": None,
            "state": "away",
            "peer": told["address"],
            "edge": edge.json("/config")["edge"]["id"],
            "since": rfc3339(int(told["since"] * SECOND_US)),
        }
        for edge in edges
        for told in edge.json("/away")
    ]


def _peer(told: dict[str, Any]) -> Peer:
    edge = SessionId.parse(told["session"]).edge
    return {**told, "state": "open", "edge": edge, "connected_at": rfc3339(int(told["connected_at"] * SECOND_US))}

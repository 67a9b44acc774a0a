"""Sends what tests say to the mesh over yamp, and collects what they hear."""

from __future__ import annotations

import json
from typing import Any

from gateway.core import content
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import RawFrame, Replayed
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog, Peer

JSON = {"format": "json"}


def client(mesh: MeshInALog, **opened: Any) -> Peer:
    return mesh.open("yamp", facts=JSON, **opened)


def event(subject: str, number: int = 1) -> bytes:
    return encode(yamp.UserEvent(number.to_bytes(16, "big"), subject, b"1"))


def request(subject: str, body: object, number: int = 100) -> bytes:
    return encode(yamp.Request(number.to_bytes(16, "big"), subject, content.to_json(body)))


def subscribe(mesh: MeshInALog, peer: Peer, pattern: str, number: int = 100, **more: str) -> str:
    return mesh.log(peer.source, request("mesh.subscribe", {"subject": pattern, **more}, number))


def put_again(mesh: MeshInALog, peer: Peer, frame: bytes, event_id: str) -> None:
    builder, at = ContainerBuilder(EDGE, EPOCH), NOW * 1_000_000
    builder.add_again(RawFrame(frame, peer.source, at), Replayed(event_id, at))
    mesh.append(builder.build())


def answers(mesh: MeshInALog, peer: Peer) -> list[Any]:
    """(type, value) of each response that went to the peer."""
    heard = [decode(group.frame) for group in mesh.sent_to(peer)]
    return [(one.outcome, json.loads(one.body)) for one in heard if isinstance(one, yamp.Response)]

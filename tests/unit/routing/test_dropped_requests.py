"""Requests whose callers are gone: whoever serves them is told, as if they had been cancelled."""

from __future__ import annotations

from dataclasses import replace

from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import decode, encode
from gateway.records.egress import EdgeRestarted
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, RequestDropped
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.routing.mesh_in_a_log import EDGE, MeshInALog, Peer

JSON = {"format": "json"}


def asked(mesh: MeshInALog, caller: Peer, server: Peer) -> ReplyAddress:
    """Returns what stands beside a request of the caller's when it comes to the server."""
    mesh.log(caller.source, encode(yamp.Request((9).to_bytes(16, "big"), "sum", b"1")))
    (group,) = mesh.sent_to(server)
    return ReplyAddress.unpack(group.reply)


def test_a_dropped_request_is_cancelled_with_its_server(mesh: MeshInALog) -> None:
    caller, server = mesh.open("yamp", facts=JSON), mesh.open("yamp", facts=JSON, serve=("sum",))
    mesh.forget_outputs()
    reply = asked(mesh, caller, server)
    mesh.forget_outputs()
    source = replace(caller.source, protocol=MESH)
    mesh.log(source, control_frames.encode(RequestDropped()), replies=(replace(reply, facts={}),))
    (group,) = mesh.sent_to(server)
    cancel = decode(group.frame)
    assert isinstance(cancel, yamp.Cancel)
    assert (cancel.uri, ReplyAddress.unpack(group.reply).key) == ("sum", reply.key)
    assert not mesh.events()


def test_who_cannot_be_told_of_a_cancel_is_not(mesh: MeshInALog) -> None:
    caller, _ = mesh.open("yamp", facts=JSON), mesh.open("hsp", serve=("sum",))
    mesh.forget_outputs()
    reply = ReplyAddress("yamp", "yamp", EDGE, 7, caller.number, "09", "sum")
    mesh.log(replace(caller.source, protocol=MESH), control_frames.encode(RequestDropped()), replies=(reply,))
    assert not mesh.egress()


def test_edges_with_servers_are_told_once_that_another_has_begun_anew() -> None:
    mesh = MeshInALog(partitions=3)
    mesh.open("yamp", facts=JSON, serve=("sum",), edge="edge-1")
    mesh.open("yamp", facts=JSON, subscribe=("a.>",), edge="edge-2")
    mesh.open("yamp", facts=JSON, serve=("sum",))
    mesh.forget_outputs()
    mesh.restart_edge(8)
    told = [(to, one.edge, one.epoch) for to, one in mesh.told() if isinstance(one, EdgeRestarted)]
    assert told == [(1, EDGE, 8)]

"""Tests that what goes over a link says where it began, without ever saying so in a type that is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.auth.keyring import GatewayIdentity
from gateway.core.content import BINARY, JSON
from gateway.core.envelope import Envelope
from gateway.core.envelope import decode as decode_envelope
from gateway.core.event import Event, Kind
from gateway.protocols.hsp import codec as hsp
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from gateway.protocols.yamp import frames as yamp
from gateway.protocols.yamp.codec import encode
from gateway.records.link_trail import HOPS_HEADER, ORIGIN_HEADER, found_in, next_hop, of_mesh, with_trail
from gateway.records.raw_log.frames import LINK_FACT
from tests.events import bare_event
from tests.unit.routing.mesh_in_a_log import GATEWAY, MeshInALog, Peer

FACTS = {LINK_FACT: True, "envelope": True}
TRAIL = f"mesh-origin={of_mesh(GATEWAY)}; mesh-hops=1"
ELSEWHERE = GatewayIdentity(b"\x0c" * 16, b"\0\0\0\xff", b"\x0d" * 32)


def event(content_type: str, kind: Kind = Kind.EVENT) -> Event:
    return bare_event(kind=kind, content_type=content_type)


def sent(mesh: MeshInALog, peer: Peer) -> list[Envelope]:
    """An answer in the envelope is followed by its ACK."""
    written = [group.frame for group in mesh.sent_to(peer)]
    frames = [hsp.decode(one[: hsp.split(one, 0, len(one))]) for one in written]
    return [decode_envelope(frame.payload)[0] for frame in frames]


@pytest.mark.parametrize(
    ("body", "type_sent"), [(b"1", f"{JSON}; {TRAIL}"), (b"", f"{BINARY}; mesh-type=none; {TRAIL}")]
)
def test_events_and_requests_carry_it_and_are_known_when_they_come_round(body: bytes, type_sent: str) -> None:
    mesh = MeshInALog()
    link = mesh.open("hsp", facts=FACTS, subscribe=("a.>",), serve=("sum",))
    peer = mesh.open("yamp", facts={"format": "json"})
    mesh.log(peer.source, encode(yamp.UserEvent(b"1" * 16, "a.b", body)))
    mesh.log(peer.source, encode(yamp.Request(b"2" * 16, "sum", body)))
    assert [(one.kind, one.content_type) for one in sent(mesh, link)] == [
        (Kind.EVENT, type_sent), (Kind.REQUEST, type_sent),
    ]  # fmt: skip
    mesh.log(link.source, mesh.sent_to(link)[0].frame)
    assert mesh.rejections() == [("match", "forbidden")]


def test_what_cannot_go_round_says_nothing_of_it() -> None:
    mesh = MeshInALog()
    link = mesh.open("hsp", facts=FACTS, serve=("sum",))
    peer = mesh.open("yamp", facts={"format": "json"})
    mesh.log(peer.source, encode(yamp.Cancel(b"3" * 16, "sum", b"2" * 16)))
    for number, subject in enumerate(("mesh.ping", "nobody")):
        asked = Envelope(Kind.REQUEST, 9 + number, subject, JSON).encode() + b"1"
        mesh.log(link.source, hsp.encode(Frame(Command.DATA_ACK, 9 + number, ENVELOPE_TYPE, asked)))
    assert [(one.kind, one.content_type) for one in sent(mesh, link)] == [
        (Kind.CANCEL, ""), (Kind.RESPONSE, JSON), (Kind.ERROR, JSON),
    ]  # fmt: skip


@pytest.mark.parametrize("content_type", ["", "text/plain; charset=utf-8", BINARY, f"{BINARY}; a=b"])
def test_the_next_mesh_finds_the_type_as_it_was(content_type: str) -> None:
    said = event(content_type)
    trail = next_hop(said, FACTS, ELSEWHERE)
    assert trail is not None
    arrived = found_in(replace(said, content_type=with_trail(said, trail, in_content_type=True).content_type))
    assert arrived.content_type == content_type
    assert arrived.headers == {ORIGIN_HEADER: of_mesh(ELSEWHERE), HOPS_HEADER: "1"}


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.EVENT, Kind.REQUEST)])
def test_no_other_kind_has_a_next_hop(kind: Kind) -> None:
    assert next_hop(event(JSON, kind), FACTS, GATEWAY) is None


@pytest.mark.parametrize(
    "forged",
    [
        "mesh-origin=zzzzzz; mesh-hops=1",
        "mesh-origin=0a0b\N{SUPERSCRIPT TWO}c; mesh-hops=1",
        "mesh-origin=0a0b0c; mesh-hops=-1",
        "mesh-origin=0a0b0c; mesh-hops=\N{SUPERSCRIPT TWO}",
        "mesh-origin=0a0b0c; mesh-hops=999",
        "mesh-origin=0a 0b ; mesh-hops=1",
    ],
)
def test_what_a_peer_writes_that_is_no_trail_goes_over_links_as_it_stands(forged: str) -> None:
    mesh = MeshInALog()
    mesh.open("yamp", facts={LINK_FACT: True, "format": "json"}, subscribe=("a.>",))
    peer = mesh.open("hsp", facts={"envelope": True})
    envelope = Envelope(Kind.EVENT, 0, "a.b", f"application/json; {forged}").encode()
    mesh.log(peer.source, hsp.encode(Frame(Command.DATA, type=ENVELOPE_TYPE, payload=envelope + b"1")))
    assert mesh.rejections() == []
    assert len(mesh.egress()) == 1

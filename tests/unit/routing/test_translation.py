"""The matrix: an event from any protocol to any, and a request between any two that have requests; bytes in, bytes out.

`golden.json` holds both sides of every pair. `MESHGATE_GOLDEN=write pytest …` makes it anew; what changes in it then is
what a peer on the wire would notice.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.content import decode_value
from gateway.core.event import Event, Kind
from gateway.protocols import protocols
from gateway.protocols.hsp.codec import split as split_hsp
from gateway.protocols.spec import CodecContext, Target
from gateway.records.raw_log.frames import FrameSource, RawFrame, ReplyAddress
from tests.events import bare_event
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, GATEWAY, NOW, MeshInALog, Peer

ALL = ("emm", "emp", "hsp", "yamp", "wolpertinger")
ASKING = ("emp", "hsp", "yamp", "wolpertinger")
GOLDEN = Path(__file__).with_name("golden.json")
WRITES = os.environ.get("MESHGATE_GOLDEN") == "write"
FACTS: dict[str, dict[str, Any]] = {
    "emp": {"envelope": True},
    "hsp": {"envelope": True},
    "yamp": {"format": "msgpack"},
}
SUBJECT, BODY = "Kitchen.temperature", b'{"celsius":21.5}'


def spoken_by_a_peer(protocol: str, event: Event) -> bytes:
    """The frame a peer of this protocol would send."""
    spec = protocols()[protocol]
    options = spec.options(**({"envelope": "always"} if "envelope" in spec.options.model_fields else {}))
    target = Target(protocol, protocol, FACTS.get(protocol, {}))
    return spec.from_event(event, target, options, CodecContext(MESH_KEYS, GATEWAY)).frame


def heard_by_a_peer(protocol: str, frame: bytes, replies: tuple[ReplyAddress, ...] = ()) -> Event:
    spec = protocols()[protocol]
    source = FrameSource(protocol, protocol, "peer", 1, 1, facts=FACTS.get(protocol, {}))
    raw = RawFrame(frame, source, NOW * 1_000_000, replies)
    return spec.to_event(raw, "0-0-0", spec.options(), CodecContext(MESH_KEYS, GATEWAY))


def made(kind: Kind, body: bytes = BODY) -> Event:
    return bare_event(
        id="1-2-3",
        kind=kind,
        subject=SUBJECT,
        protocol="peer",
        received_at=NOW * 1_000_000,
        message_id="7",
        content_type="application/json",
        body=body,
    )


_own = Key(GATEWAY.key_id, ed25519=public_of(GATEWAY.ed25519_private), default=True)
MESH_KEYS = KeyRing({GATEWAY.node: {GATEWAY.key_id: _own}})


def peer_of(mesh: MeshInALog, protocol: str, **opened: Any) -> Peer:
    return mesh.open(protocol, facts=FACTS.get(protocol), **opened)


def check_golden(name: str, sides: dict[str, str]) -> None:
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if WRITES:
        golden[name] = sides
        GOLDEN.write_text(json.dumps(dict(sorted(golden.items())), indent=1) + "\n")
    assert golden.get(name) == sides


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("origin", ALL)
def test_an_event_from_any_protocol_reaches_any(origin: str, to: str, mesh: MeshInALog) -> None:
    frame = spoken_by_a_peer(origin, made(Kind.EVENT))
    source = (
        peer_of(mesh, origin).source if origin != "emm" else FrameSource("emm", "emm", EDGE, EPOCH, 0, "10.0.0.2:5")
    )
    if to == "emm":
        hello = spoken_hello()
        mesh.log(FrameSource("emm", "emm", EDGE, EPOCH, 0, "10.0.0.9:77"), hello)
    else:
        receiver = peer_of(mesh, to, subscribe=("Kitchen.>",))
    mesh.forget_outputs()
    mesh.log(source, frame)
    groups = mesh.sent_to_address("10.0.0.9:77") if to == "emm" else mesh.sent_to(receiver)
    assert len(groups) == 1, mesh.rejections()
    heard = heard_by_a_peer(to, groups[0].frame)
    assert heard.subject == SUBJECT
    assert carried(heard) == {"celsius": 21.5}
    check_golden(f"event {origin} to {to}", {"in": frame.hex(), "out": groups[0].frame.hex()})


def carried(heard: Event) -> Any:
    """The value, whatever the way had to wrap it in: a list of parameters, a string that holds JSON."""
    value = decode_value(heard.body, heard.content_type)
    while not isinstance(value, dict):
        value = value[0] if isinstance(value, list) else json.loads(value)
    return value


def spoken_hello() -> bytes:
    from gateway.protocols.emm import codec
    from gateway.protocols.emm.frames import EventType, Field, FieldType
    from gateway.protocols.emm.signing import Signer

    wanted = Field(FieldType.BINARY, b'{"subscribe":["Kitchen.>"]}')
    draft = codec.Draft(message_id=b"helo", timestamp=NOW, fields=(wanted,), event_type=EventType.HELLO)
    return codec.encode(draft, Signer.of(GATEWAY))


@pytest.mark.parametrize("to", ASKING)
@pytest.mark.parametrize("origin", ASKING)
def test_a_request_between_any_two_is_answered(origin: str, to: str, mesh: MeshInALog) -> None:
    requester = peer_of(mesh, origin)
    server = peer_of(mesh, to, serve=("Kitchen.>",))
    mesh.forget_outputs()
    question = spoken_by_a_peer(origin, made(Kind.REQUEST, b"[1,2]"))
    mesh.log(requester.source, question)
    (asked,) = mesh.sent_to(server)
    request = heard_by_a_peer(to, asked.frame)
    assert (request.kind, request.subject) == (Kind.REQUEST, SUBJECT)

    mesh.forget_outputs()
    answer = replace(made(Kind.RESPONSE, b"3"), message_id="", correlation=request.message_id)
    spec = protocols()[to]
    target = Target(to, to, FACTS.get(to, {}), request.message_id)
    said = spec.from_event(answer, target, spec.options(), CodecContext(MESH_KEYS, GATEWAY)).frame
    if to == "hsp":  # the answer in the envelope, then the ACK that its session keeps to itself
        said = said[: split_hsp(said, 0, len(said))]
    mesh.log(server.source, said, replies=(ReplyAddress.unpack(asked.reply),))
    (answered,) = mesh.sent_to(requester)
    assert answered.request
    check_golden(
        f"request {origin} to {to}",
        {"in": question.hex(), "asked": asked.frame.hex(), "said": said.hex(), "answered": answered.frame.hex()},
    )

"""The published packets, read and written."""

from __future__ import annotations

import pytest

from gateway.core.event import Auth, Kind
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import FieldType
from gateway.protocols.emm.signing import Signer
from tests.unit.protocols.emm.vectors import (
    E1,
    E2,
    E3,
    E4,
    E5,
    E6,
    KEY_ID,
    NODE,
    NODE_TEXT,
    OPEN,
    SECRET,
    SEED,
    VECTORS,
    Vector,
    receive,
)

BY_NAME = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


@BY_NAME
def test_canonical_bytes_are_those_of_the_vector(vector: Vector) -> None:
    assert codec.canonical(codec.decode(vector.packet)) == vector.canonical


@BY_NAME
def test_tags_are_found_where_they_stand(vector: Vector) -> None:
    packet = codec.decode(vector.packet)
    assert packet.value(FieldType.HMAC) == vector.hmac
    assert packet.value(FieldType.SIGNATURE) == vector.signature


@BY_NAME
def test_building_the_packet_again_gives_its_bytes(vector: Vector) -> None:
    packet = codec.decode(vector.packet)
    fields = tuple(codec.join_values(item for item in packet.fields if item.type not in _SIGNERS_OWN))
    header = packet.header
    draft = codec.Draft(header.message_id, header.timestamp, fields, header.event_type, header.flags)
    signer = Signer(
        NODE,
        KEY_ID if packet.value(FieldType.AUTH_KEY_ID) else None,
        SECRET if vector.hmac else None,
        SEED if vector.signature else None,
        announce=packet.value(FieldType.PUBLIC_KEY) is not None,
    )
    assert codec.encode(draft, signer) == vector.packet


_SIGNERS_OWN = {FieldType.NODE_ID, FieldType.PUBLIC_KEY, FieldType.AUTH_KEY_ID, FieldType.HMAC, FieldType.SIGNATURE}


@pytest.mark.parametrize(
    ("packet", "subject", "content_type", "body", "auth"),
    [
        pytest.param(E1, "temp.high", "", b"", Auth.HMAC, id="E1"),
        pytest.param(E2, "temp.high", "", b"", Auth.ED25519, id="E2"),
        pytest.param(E3, "sec", "application/octet-stream", b"\xc0\xff\xee", Auth.HMAC_ED25519, id="E3"),
        pytest.param(E4, "mesh.emm.hello", "application/octet-stream", b"\x01", Auth.NONE, id="E4"),
        pytest.param(E5, "mesh.emm.heartbeat", "", b"", Auth.NONE, id="E5"),
        pytest.param(E6, "a", "application/json", b'["b",-2,1.5,{"$base64": ""},{"k":1}]', Auth.HMAC, id="E6"),
    ],
)
def test_a_vector_becomes_its_event(packet: bytes, subject: str, content_type: str, body: bytes, auth: Auth) -> None:
    event = receive(packet, OPEN)
    assert (event.subject, event.content_type, event.body, event.auth) == (subject, content_type, body, auth)
    assert (event.kind, event.node, event.message_id) == (Kind.EVENT, NODE_TEXT, "deadbeef")
    assert event.key_id == ("" if auth is Auth.NONE else "00000001")
    assert event.urgent == (packet is E3)
    assert event.raw == packet

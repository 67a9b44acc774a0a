"""Packets to events, events to packets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.event import FOREIGN_KEY_HEADER, Auth, Event, Kind
from gateway.core.reasons import Reason
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import MAX_PACKET_BYTES, EventType, Field, FieldType
from gateway.protocols.emm.mapping import dedup_key, from_event, partition_key
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.spec import CodecContext, Encoded, Target
from tests.events import bare_event
from tests.refusals import reason_of
from tests.unit.core.subjects import subjects
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, BY_HMAC, NAME, NODE_ID, packet
from tests.unit.protocols.emm.packets import event as event_packet
from tests.unit.protocols.emm.test_packet_checks import FOREIGN, signed
from tests.unit.protocols.emm.vectors import (
    E1,
    E2,
    E4,
    ENV,
    IDENTITY,
    NODE,
    NODE_TEXT,
    OPEN,
    RECEIVED_AT,
    STRICT,
    VECTORS,
    receive,
)

TARGET = Target("emm", "devices")
RESIGN = EmmOptions(forward="resign")
GATEWAY_KEY = Key(IDENTITY.key_id, hmac=IDENTITY.hmac, ed25519=public_of(IDENTITY.ed25519_private))
PEER = CodecContext(KeyRing({IDENTITY.node: {IDENTITY.key_id: GATEWAY_KEY}}))
"""A peer of the gateway: it knows the gateway's key and no other."""

FOREIGN_EVENT = bare_event(
    id="3-17-0",
    subject="order.created",
    protocol="yamp",
    listener="apps",
    edge="edge-0",
    session="edge-0.1.2",
    node="anon:edge-0:2",
    received_at=RECEIVED_AT + 999_999,
    content_type="application/json",
    body=b'{"n":1}',
)


def encoded(event: Event, options: EmmOptions = STRICT, env: CodecContext = ENV) -> Encoded:
    return from_event(event, TARGET, options, env)


# -- bodies --------------------------------------------------------------------------------------------------------

INT, FLOAT = Field(FieldType.INTEGER, bytes.fromhex("fffffffe")), Field(FieldType.FLOAT, bytes.fromhex("3fc00000"))
TEXT, JSON, BINARY = Field(1, "größe".encode()), Field(5, b' {"k": 1.10}'), Field(4, b"\0\xff")


@pytest.mark.parametrize(
    ("fields", "content_type", "body"),
    [
        pytest.param((), "", b"", id="none"),
        pytest.param((TEXT,), "text/plain", "größe".encode(), id="01"),
        pytest.param((INT,), "application/json", b"-2", id="02"),
        pytest.param((FLOAT,), "application/json", b"1.5", id="03"),
        pytest.param((BINARY,), "application/octet-stream", b"\0\xff", id="04"),
        pytest.param((JSON,), "application/json", b' {"k": 1.10}', id="05 as it came"),
        pytest.param((Field(FieldType.FLOAT, bytes.fromhex("7fc00000")),), "application/json", b"null", id="NaN"),
        pytest.param((Field(FieldType.FLOAT, bytes.fromhex("ff800000")),), "application/json", b"null", id="-infinity"),
        pytest.param((BINARY, BINARY), "application/json", b'[{"$base64": "AP8="},{"$base64": "AP8="}]', id="04 twice"),
        pytest.param(
            (TEXT, INT, FLOAT, JSON), "application/json", '["größe",-2,1.5, {"k": 1.10}]'.encode(), id="several"
        ),
    ],
)
def test_data_fields_but_the_name_are_the_body(fields: tuple[Field, ...], content_type: str, body: bytes) -> None:
    found = receive(event_packet(*fields))
    assert (found.content_type, found.body) == (content_type, body)


def test_the_first_string_is_the_subject_wherever_it_stands() -> None:
    found = receive(packet(INT, NAME, Field(1, b"second"), NODE_ID, AUTH_KEY_ID, signer=BY_HMAC))
    assert (found.subject, found.body) == ("temp.high", b'[-2,"second"]')


def test_context_and_unknown_fields_are_no_part_of_the_body() -> None:
    context = (Field(FieldType.NONCE, bytes(12)), Field(FieldType.KEY_IDENTIFIER, bytes(16)), Field(0x7F, b"new"))
    assert receive(event_packet(*context)).body == b""


def test_an_event_says_where_it_came_from() -> None:
    found = receive(E2)
    assert (found.id, found.listener, found.edge, found.peer) == ("0-0-0", "devices", "edge-0", "192.0.2.7:40000")
    assert (found.protocol, found.session, found.received_at) == ("emm", "", RECEIVED_AT)
    assert (found.sent_at, found.correlation) == (RECEIVED_AT, "")


# -- towards peers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_packet_is_forwarded_as_it_came(vector: object) -> None:
    data = getattr(vector, "packet")  # noqa: B009
    assert encoded(receive(data, OPEN)) == Encoded(data)


def test_a_packet_that_is_signed_again_is_the_gateways() -> None:
    first = receive(event_packet(JSON))
    again = encoded(first, RESIGN).frame
    second = receive(again, env=PEER)
    assert (second.subject, second.body, second.content_type) == (first.subject, first.body, first.content_type)
    assert second.node == "00000000-0000-0000-0000-000000000067"
    assert (second.auth, second.key_id) == (Auth.HMAC_ED25519, "000000ff")


def test_an_encrypted_packet_is_forwarded_as_it_came_whatever_the_listener_says() -> None:
    sealed = receive(VECTORS[2].packet)
    assert encoded(sealed, RESIGN).frame == VECTORS[2].packet


def test_what_the_gateway_has_signed_is_not_signed_again_under_another_id_when_a_peer_sends_it_back() -> None:
    """Or it would go round between the two for ever, a new event each time."""
    ours = encoded(FOREIGN_EVENT, RESIGN).frame
    back = replace(receive(ours, env=PEER), id="3-18-0")
    assert back.auth is Auth.HMAC_ED25519
    assert encoded(back, RESIGN).frame == ours
    assert dedup_key(receive(encoded(back, RESIGN).frame, env=PEER), RESIGN) == dedup_key(back, RESIGN)
    stranger = replace(ENV, identity=replace(IDENTITY, node=bytes(16)))
    assert encoded(back, RESIGN, stranger).frame[1:5] != ours[1:5]


@pytest.mark.parametrize(
    "changed",
    [{"auth": Auth.NONE}, {"headers": {FOREIGN_KEY_HEADER: "0a"}}],
    ids=["unproven", "by a key of another's"],
)
def test_what_only_says_that_it_is_the_gateways_is_signed_by_it(changed: dict[str, Any]) -> None:
    ours = encoded(FOREIGN_EVENT, RESIGN).frame
    claimed = replace(receive(ours, env=PEER), id="3-18-0", **changed)
    assert encoded(claimed, RESIGN).frame[1:5] != ours[1:5]


def test_what_the_gateway_has_signed_is_signed_again_where_it_is_sent_long_after() -> None:
    ours = encoded(FOREIGN_EVENT, RESIGN).frame
    back = replace(receive(ours, env=PEER), id="3-18-0")
    later = from_event(back, replace(TARGET, again_at=RECEIVED_AT + 10**9), RESIGN, ENV).frame
    assert later[1:5] != ours[1:5]


def test_an_event_of_another_protocol_becomes_a_packet_of_the_gateways() -> None:
    result = encoded(FOREIGN_EVENT)
    found = receive(result.frame, env=PEER)
    assert (found.subject, found.body, found.content_type) == ("order.created", b'{"n":1}', "application/json")
    assert found.sent_at == RECEIVED_AT
    assert not found.urgent
    assert result.losses == ()


def test_the_same_event_is_the_same_packet_and_another_is_not() -> None:
    first, again = encoded(FOREIGN_EVENT).frame, encoded(replace(FOREIGN_EVENT)).frame
    other = encoded(replace(FOREIGN_EVENT, id="3-17-1")).frame
    assert first == again
    assert first[1:5] != other[1:5]


def test_message_ids_are_the_gateways_secret() -> None:
    """Another gateway gives other ids: nobody can tell the next one."""
    other = replace(ENV, identity=replace(IDENTITY, ed25519_private=b"t" * 32))
    assert encoded(FOREIGN_EVENT).frame[1:5] != encoded(FOREIGN_EVENT, env=other).frame[1:5]


def test_a_gateway_without_an_hmac_secret_only_signs() -> None:
    env = replace(ENV, identity=replace(IDENTITY, hmac=None))
    assert receive(encoded(FOREIGN_EVENT, env=env).frame, env=PEER).auth is Auth.ED25519


def test_urgency_is_kept() -> None:
    assert receive(encoded(replace(FOREIGN_EVENT, urgent=True)).frame, env=PEER).urgent


@pytest.mark.parametrize(
    ("content_type", "body", "field", "received", "losses"),
    [
        ("application/json; charset=utf-8", b"[1]", FieldType.JSON, b"[1]", ()),
        ("application/msgpack", b"\x81\xa1k\xc4\x01\xff", FieldType.JSON, b'{"k":{"$base64":"/w=="}}', ()),
        ("text/plain", "ö".encode(), FieldType.STRING, "ö".encode(), ()),
        ("text/plain", b"\xff", FieldType.BINARY, b"\xff", ("content_type",)),
        ("application/octet-stream", b"\xff", FieldType.BINARY, b"\xff", ()),
        ("", b"\xff", FieldType.BINARY, b"\xff", ()),
        ("image/png", b"\xff", FieldType.BINARY, b"\xff", ("content_type",)),
    ],
)
def test_a_body_becomes_the_field_of_its_type(
    content_type: str, body: bytes, field: FieldType, received: bytes, losses: tuple[str, ...]
) -> None:
    result = encoded(replace(FOREIGN_EVENT, content_type=content_type, body=body))
    assert receive(result.frame, env=PEER).body == received
    assert sum(item.type == field for item in codec.decode(result.frame).fields) == 1 + (field == FieldType.STRING)
    assert result.losses == losses


def test_no_body_is_no_field() -> None:
    result = encoded(replace(FOREIGN_EVENT, content_type="image/png", body=b""))
    assert (receive(result.frame, env=PEER).body, result.losses) == (b"", ())


def test_json_that_is_none_cannot_be_said() -> None:
    assert reason_of(encoded, replace(FOREIGN_EVENT, body=b"{")) is Reason.BAD_ENCODING


def test_an_event_fits_a_packet_or_is_too_large() -> None:
    def long(size: int) -> Event:
        return replace(FOREIGN_EVENT, content_type="application/octet-stream", body=bytes(size))

    room = MAX_PACKET_BYTES - len(encoded(long(1)).frame) + 1 - 2  # a second field's head
    assert len(encoded(long(room)).frame) == MAX_PACKET_BYTES
    assert reason_of(encoded, long(room + 1)) is Reason.TOO_LARGE


def test_a_request_has_no_responder() -> None:
    assert reason_of(encoded, replace(FOREIGN_EVENT, kind=Kind.REQUEST)) is Reason.NO_RESPONDER


@pytest.mark.parametrize("kind", [Kind.RESPONSE, Kind.PROGRESS, Kind.ERROR, Kind.CANCELLED, Kind.CANCEL])
def test_what_belongs_to_requests_is_lost(kind: Kind) -> None:
    assert encoded(replace(FOREIGN_EVENT, kind=kind)) == Encoded(b"", losses=(kind.value,))


def test_without_an_identity_nothing_can_be_signed() -> None:
    assert reason_of(encoded, FOREIGN_EVENT, env=replace(ENV, identity=None)) is Reason.UNTRANSLATABLE
    assert encoded(receive(E1), env=replace(ENV, identity=None)).frame == E1


@given(
    subject=subjects(30).filter(lambda text: not text.lower().startswith("mesh")),
    body=st.binary(max_size=300),
    urgent=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_what_a_packet_can_say_comes_back(subject: str, body: bytes, urgent: bool) -> None:
    event = replace(FOREIGN_EVENT, subject=subject, content_type="application/octet-stream", body=body, urgent=urgent)
    found = receive(encoded(event).frame, env=PEER)
    assert (found.subject, found.body, found.urgent) == (subject, body, urgent)


# -- repeats -------------------------------------------------------------------------------------------------------


def test_a_packet_is_known_by_node_and_message_id() -> None:
    by_hmac, by_signature = receive(E1), receive(E2)
    assert dedup_key(by_hmac, STRICT) == dedup_key(by_signature, STRICT) == f"{NODE_TEXT}:deadbeef"


def test_what_is_not_authenticated_can_never_burn_the_id_of_what_is() -> None:
    forged = receive(packet(NAME, NODE_ID), OPEN)
    assert (forged.node, forged.message_id) == (NODE_TEXT, receive(E1).message_id)
    assert dedup_key(forged, OPEN) != dedup_key(receive(E1), STRICT)
    assert dedup_key(forged, OPEN) == dedup_key(receive(E4, OPEN), OPEN)


def test_a_key_that_anybody_may_bring_burns_no_id_but_its_own() -> None:
    anyones = EmmOptions(public_key="any")
    foreign = receive(signed(FOREIGN), anyones)
    other = receive(signed(replace(FOREIGN, ed25519_private=b"p" * 32)), anyones)
    keys = {dedup_key(event, anyones) for event in (foreign, other, receive(E2, anyones))}
    assert len(keys) == 3
    assert dedup_key(receive(E2, anyones), anyones) == dedup_key(receive(E1), STRICT)


def test_a_packet_without_a_node_cannot_be_known_again() -> None:
    assert dedup_key(receive(packet(NAME), OPEN), OPEN) is None


# -- partitions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_the_partition_is_the_nodes(vector: object) -> None:
    data = getattr(vector, "packet")  # noqa: B009
    assert partition_key(data) == NODE


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x14\x10" + NODE, id="no header"),
        pytest.param(packet(NAME), id="no node"),
        pytest.param(packet(NAME, Field(4, b"\x14\x10" + NODE)), id="a node within a value"),
        pytest.param(packet(NAME, Field(0x14, NODE[:15])), id="a node too short"),
        pytest.param(packet(NAME, Field(0x14, NODE + b"x")), id="a node too long"),
        pytest.param(packet(NAME, NODE_ID)[:-1], id="a node cut off"),
        pytest.param(packet(Field(1, b"x" * 255))[:-1] + b"", id="an overrun"),
    ],
)
def test_a_packet_that_names_no_node_has_no_key(data: bytes) -> None:
    assert partition_key(data) == b""


@given(st.binary(max_size=600))
@settings(max_examples=200, deadline=None)
def test_any_bytes_have_a_partition(data: bytes) -> None:
    assert len(partition_key(data)) in (0, 16)


@pytest.mark.parametrize("event_type", EventType)
def test_the_partition_is_that_of_the_event(event_type: EventType) -> None:
    """The edge peeks, the router judges: both must mean the same node."""
    data = packet(NAME, Field(4, b""), Field(0x15, bytes(8)), Field(0x14, b"n" * 16), event_type=event_type)
    found = receive(data, EmmOptions(unauthenticated="accept", freshness="off"))
    assert partition_key(data).hex() == found.node.replace("-", "")

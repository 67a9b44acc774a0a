"""Packets ↔ the mesh's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from uuid import UUID

from gateway.auth.keyring import NODE_BYTES, GatewayIdentity
from gateway.core.content import BINARY, JSON
from gateway.core.event import FOREIGN_KEY_HEADER, NO_HEADERS, SECOND_US, Auth, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import check_subject
from gateway.core.wire import U64, decode_utf8
from gateway.protocols.emm import codec
from gateway.protocols.emm.body import content_of, fields_of
from gateway.protocols.emm.frames import (
    DATA_TYPES,
    FLAGS_OFFSET,
    HEADER_BYTES,
    HEARTBEAT_SUBJECT,
    HELLO_SUBJECT,
    PRESENCE_PREFIX,
    SEALED_HEADER_BYTES,
    EventType,
    Field,
    FieldType,
    Flag,
    Packet,
)
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.packet_checks import PacketVerdict, judge
from gateway.protocols.emm.presence import capabilities
from gateway.protocols.emm.sealing import Metadata, open_data
from gateway.protocols.emm.signing import Signer, message_id, signing_identity
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.records.raw_log.frames import RawFrame

LATEST_SECONDS = (2**63 - 1) // SECOND_US
"""The last second that a signed 64-bit count of microseconds, as the stream's columns have it, can hold."""

_NODE_ID = FieldType.NODE_ID.value
_EVENT, _UNPROVEN = Kind.EVENT, Auth.NONE

NAMES_REMEMBERED = 16_384
"""The most names that are remembered, of nodes and of events."""

ENCRYPTED_HEADER = "encrypted"
COMPRESSED_HEADER = "compressed"


def to_event(raw: RawFrame, event_id: str, options: EmmOptions, env: CodecContext, /) -> Event:
    packet, verdict = judge(raw.data, raw.received_at, options, env)
    return event_of(packet, verdict, raw, event_id, options, env)


def event_of(
    packet: Packet, verdict: PacketVerdict, raw: RawFrame, event_id: str, options: EmmOptions, env: CodecContext
) -> Event:
    """Returns the event of a packet that was judged, or whose receiver need not know its sender. Raises Rejected."""
    subject, data = _subject_and_data(packet)
    headers: dict[str, str] = {}
    if packet.header.flags & Flag.ENCRYPTED and options.encryption == "pass":
        headers |= _sealed_headers(packet)
    else:
        data = open_data(packet, data, raw.received_at, env.keys, options.uncompressed_bytes)
    if verdict.foreign_key:
        headers[FOREIGN_KEY_HEADER] = verdict.foreign_key.hex()
    content_type, body = content_of(data) if subject != HELLO_SUBJECT else _capabilities(data)
    header, source = packet.header, raw.source
    return Event(
        id=event_id,
        kind=Kind.EVENT,
        subject=subject,
        protocol=source.protocol,
        listener=source.listener,
        edge=source.edge,
        session=source.session_id,
        peer=source.peer,
        node=node_text(packet.value(FieldType.NODE_ID) or b""),
        received_at=raw.received_at,
        message_id=header.message_id.hex(),
        content_type=content_type,
        body=body,
        headers=MappingProxyType(headers) if headers else NO_HEADERS,
        urgent=bool(header.flags & Flag.URGENT),
        sent_at=sent_at(header.timestamp),
        auth=verdict.auth,
        key_id=verdict.key_id.hex(),
        raw=raw.data,
    )


@lru_cache(maxsize=NAMES_REMEMBERED)
def node_text(node: bytes) -> str:
    """Returns a NODE ID in the canonical text of a UUID; empty for none."""
    return str(UUID(bytes=node)) if node else ""


def sent_at(timestamp: int) -> int | None:
    """Returns the time that the peer claims, in microseconds; None for a time that no clock will show."""
    return timestamp * SECOND_US if timestamp <= LATEST_SECONDS else None


def _subject_and_data(packet: Packet) -> tuple[str, tuple[Field, ...]]:
    """Returns the subject, and the data fields that are the body."""
    data = tuple(item for item in codec.join_values(packet.fields) if item.type in DATA_TYPES)
    match packet.header.event_type:
        case EventType.HELLO:
            return HELLO_SUBJECT, data
        case EventType.HEARTBEAT:
            return HEARTBEAT_SUBJECT, data
        case EventType.EVENT:
            name = next(index for index, item in enumerate(data) if item.type == FieldType.STRING)
            subject = data[name].value.decode()
            check_name(subject)
            return subject, data[:name] + data[name + 1 :]
        case other:
            return f"emm.type.{other}", data


decode_name = lru_cache(maxsize=NAMES_REMEMBERED)(decode_utf8)
"""Of an event: nodes say the same few things all the time."""


@lru_cache(maxsize=NAMES_REMEMBERED)
def check_name(name: str) -> None:
    if not name:
        raise Rejected(Reason.MISSING_FIELD, "an empty event name")
    check_subject(name)
    if name[: len(PRESENCE_PREFIX)].lower().replace("/", ".") == PRESENCE_PREFIX:
        raise Rejected(Reason.FORBIDDEN, "the name of a hello or heartbeat on an event")


def _capabilities(data: tuple[Field, ...]) -> tuple[str, bytes]:
    """Returns the content of a hello: its first binary field, whatever else it says."""
    blob = next(item.value for item in data if item.type == FieldType.BINARY)
    return BINARY if capabilities(blob) is None else JSON, blob


def _sealed_headers(packet: Packet) -> Mapping[str, str]:
    """Returns all that opens the ciphertext but the key, for receivers that speak another protocol."""
    metadata = Metadata.of(packet)
    headers = {
        ENCRYPTED_HEADER: metadata.algorithm.label,
        "encrypted-nonce": metadata.nonce.hex(),
        "encrypted-header": packet.raw[:SEALED_HEADER_BYTES].hex(),
    }
    if metadata.key_identifier is not None:
        headers["encrypted-key"] = metadata.key_identifier.hex()
    if packet.header.flags & Flag.COMPRESSED:
        headers[COMPRESSED_HEADER] = "gzip"
    return headers


def from_event(event: Event, target: Target, options: EmmOptions, env: CodecContext, /) -> Encoded:
    """Encodes an event. emm carries events and nothing else."""
    if event.kind is not _EVENT:
        if event.kind is Kind.REQUEST:
            raise Rejected(Reason.NO_RESPONDER, "an emm peer answers no requests")
        return Encoded.nothing(event.kind.value)
    if event.protocol == "emm" and event.raw and _goes_verbatim(event, target, options, env):
        return Encoded(event.raw)
    identity = signing_identity(env.identity)
    draft, losses = draft_of(event, message_id(event.id, identity, b"event"))
    if target.again_at is not None:  # signed at another time than it was created (6.1), or its receivers find it stale
        signed_at = Field(FieldType.TIMESTAMP, U64.pack(target.again_at // SECOND_US))
        draft = replace(draft, fields=(*draft.fields, signed_at))
    return Encoded(codec.encode(draft, Signer.of(identity)), losses=losses)


def _goes_verbatim(event: Event, target: Target, options: EmmOptions, env: CodecContext) -> bool:
    """A ciphertext does so always: it is bound to the header it came with, and its key to the node. And so does what we
    have signed ourselves: under a new id each time, a peer that sends it back would keep it going for ever."""
    if options.forward == "verbatim" or ENCRYPTED_HEADER in event.headers:
        return True
    return target.again_at is None and _is_signed_by(env.identity, event)


def _is_signed_by(identity: GatewayIdentity | None, event: Event) -> bool:
    """Returns True if this gateway's `from_event` produced the packet.

    It never compresses or encrypts, so such a packet came from another holder of the key.
    """
    named = identity is not None and event.node == node_text(identity.node)
    proven = event.auth is not Auth.NONE and FOREIGN_KEY_HEADER not in event.headers
    return named and proven and not event.raw[FLAGS_OFFSET] & (Flag.ENCRYPTED | Flag.COMPRESSED)


def draft_of(event: Event, message_id: bytes) -> tuple[codec.Draft, tuple[str, ...]]:
    """Returns the packet that says what the event says, and what of the event it cannot say."""
    fields, losses = fields_of(event)
    draft = codec.Draft(
        message_id=message_id,
        timestamp=event.received_at // SECOND_US,
        fields=(Field(FieldType.STRING, event.subject.encode()), *fields),
        flags=Flag.URGENT if event.urgent else 0,
    )
    return draft, losses


def dedup_key(event: Event, _options: EmmOptions, /) -> str | None:
    """Returns (NODE ID, Message ID), for the whole mesh.

    A packet that does not prove its node is keyed apart, so that it can never use up the id of a packet that does.
    """
    if not event.node:
        return None
    if event.auth is _UNPROVEN:
        return f"none:{event.node}:{event.message_id}"
    if event.headers and FOREIGN_KEY_HEADER in event.headers:
        return f"{event.headers[FOREIGN_KEY_HEADER]}:{event.node}:{event.message_id}"
    return f"{event.node}:{event.message_id}"


def claimed_node(raw: bytes, /) -> str:
    """Returns the node that a datagram claims to be from; "" if it names none."""
    key = partition_key(raw)
    return node_text(key) if key else ""


def partition_key(raw: bytes, /) -> bytes:
    """Returns the NODE ID that a datagram claims. Called for every datagram an edge receives, so it only walks."""
    position = HEADER_BYTES
    last = len(raw) - NODE_BYTES - 2
    while position <= last:
        kind, size = raw[position], raw[position + 1]
        position += 2
        if kind == _NODE_ID:
            return raw[position : position + NODE_BYTES] if size == NODE_BYTES else b""
        position += size
    return b""

"""beacon to events and back. A datagram is five parts with a bar between: node, id, proof, subject, body.

The subject `hello` asks for what stands in the body. The proof is the secret of the listener.
"""

from __future__ import annotations

from gateway.core.event import Auth, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import check_subject
from gateway.protocols.spec import CodecContext, Encoded, Lease, Options, Target
from gateway.records.raw_log.frames import RawFrame

HELLO, LEASE_SECONDS = "hello", 60


class BeaconOptions(Options):
    word: str = "word"


def _parts(data: bytes) -> list[bytes]:
    parts = data.split(b"|", 4)
    if len(parts) < 5:
        raise Rejected(Reason.TRUNCATED, "a beacon has five parts")
    return parts


def to_event(raw: RawFrame, event_id: str, options: BeaconOptions, _env: CodecContext, /) -> Event:
    node, message_id, proof, subject, body = _parts(raw.data)
    if proof != options.word.encode():
        raise Rejected(Reason.UNAUTHENTICATED, "not the listener's word")
    check_subject(subject.decode())
    source = raw.source
    return Event(
        event_id,
        Kind.EVENT,
        subject.decode(),
        source.protocol,
        source.listener,
        source.edge,
        source.session_id,
        source.peer,
        node.decode(),
        raw.received_at,
        message_id=message_id.decode(),
        body=body,
        auth=Auth.HMAC,
    )


def from_event(event: Event, _target: Target, options: BeaconOptions, _env: CodecContext, /) -> Encoded:
    if event.kind is not Kind.EVENT:
        return Encoded.nothing(event.kind.value)
    head = "|".join([event.node, event.message_id, options.word, event.subject])
    return Encoded(f"{head}|".encode() + event.body)


def dedup_key(event: Event, _options: BeaconOptions, /) -> str | None:
    return f"{event.node}:{event.message_id}"


def asked_lease(event: Event, _options: BeaconOptions, /) -> Lease | None:
    return Lease(LEASE_SECONDS, (event.body.decode(),)) if event.subject == HELLO else None


def grant_lease(_event: Event, lease: Lease, _env: CodecContext, /) -> bytes:
    return b"granted " + " ".join(lease.subscribe).encode()


def partition_key(data: bytes, /) -> bytes:
    return data.partition(b"|")[0]


def claimed_node(data: bytes, /) -> str:
    return partition_key(data).decode(errors="replace")

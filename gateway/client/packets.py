"""The packets a client of emm sends, and what it makes of those it gets. Pure: no socket, no clock of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.auth.keyring import KEY_IDENTIFIER_BYTES, KeyRing
from gateway.client.message_ids import MessageIds
from gateway.client.packet_key import PacketKey
from gateway.core.content import BINARY
from gateway.core.event import SECOND_US, Auth, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U64
from gateway.protocols.emm import codec, rules
from gateway.protocols.emm.frames import HELLO_SUBJECT, Algorithm, EventType, Field, FieldType
from gateway.protocols.emm.mapping import draft_of, event_of
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.packet_checks import PacketVerdict, judge
from gateway.protocols.emm.sealing import Metadata, compress, seal
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame

NONCE_BYTES = 12
ALGORITHMS = {algorithm.label: algorithm for algorithm in Algorithm}

EMM = "emm"
"""The protocol of datagrams that this client speaks."""


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Says how an event is sent. A compressed or encrypted body is binary: its content type is not sent."""

    urgent: bool = False
    compress: bool = False
    encrypt: Algorithm | None = None


PLAIN = Wrapping()
LEAST_LEASE_SECONDS = 1.0
"""No mesh grants less: a lease of nothing would be renewed without a pause."""


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """The mesh's answer to a hello. `more` counts the patterns it subscribed to that it did not name."""

    lease_seconds: float
    subscribed: frozenset[str]
    more: int = 0


class PacketWriter:
    """Writes packets. `key` is None for a sender that proves nothing.

    `token(n)` gives n random bytes, `clock` microseconds.
    """

    def __init__(self, key: PacketKey | None, token: Callable[[int], bytes], clock: Callable[[], int]) -> None:
        self._key = key
        self._token = token
        self._clock = clock
        self._ids = MessageIds(token)

    def event(self, subject: str, body: bytes, content_type: str, wrapping: Wrapping = PLAIN) -> bytes:
        """Raises Rejected (too_large, untranslatable, unknown_key)."""
        wrapped = wrapping.compress or wrapping.encrypt is not None
        event = Event(
            id="",
            kind=Kind.EVENT,
            subject=subject,
            protocol="client",
            received_at=self._clock(),
            content_type=BINARY if wrapped else content_type,
            body=body,
            urgent=wrapping.urgent,
        )
        draft, _ = draft_of(event, self._ids.next())
        if wrapping.compress:
            draft = compress(draft)
        if wrapping.encrypt is not None:
            draft = self._sealed(draft, wrapping.encrypt)
        return self._encode(draft)

    def hello(self, patterns: Sequence[str]) -> bytes:
        """The full list of what is wanted: it replaces the one before."""
        body = json.dumps({"subscribe": list(patterns)}, ensure_ascii=False, separators=(",", ":")).encode()
        return self._encode(self._presence(EventType.HELLO, Field(FieldType.BINARY, body)))

    def heartbeat(self) -> bytes:
        now = U64.pack(self._clock() // SECOND_US)
        return self._encode(self._presence(EventType.HEARTBEAT, Field(FieldType.TIMESTAMP, now)))

    def _presence(self, event_type: EventType, field: Field) -> codec.Draft:
        return codec.Draft(self._ids.next(), self._clock() // SECOND_US, (field,), event_type)

    def _sealed(self, draft: codec.Draft, algorithm: Algorithm) -> codec.Draft:
        if self._key is None or self._key.encryption is None:
            raise Rejected(Reason.UNKNOWN_KEY, "the key has no part for encryption")
        key_id = self._key.signer.key_id
        identifier = None if key_id is None else key_id.rjust(KEY_IDENTIFIER_BYTES, b"\0")
        return seal(draft, Metadata(algorithm, self._token(NONCE_BYTES), identifier), self._key.encryption)

    def _encode(self, draft: codec.Draft) -> bytes:
        return codec.encode(draft, None if self._key is None else self._key.signer)


class PacketReader:
    """Reads packets. `keys` verify them and open encrypted bodies; without any, nothing is verified."""

    def __init__(self, keys: KeyRing | None, *, verify: bool) -> None:
        self._env = CodecContext(keys or KeyRing())
        self._verify = verify
        self._options = EmmOptions(encryption="pass" if keys is None else "open")

    def read(self, packet: bytes, peer: str, now: int) -> Event:
        """Raises Rejected."""
        raw = RawFrame(packet, FrameSource(EMM, "", "client", 1, peer=peer), now)
        if self._verify:
            decoded, verdict = judge(packet, now, self._options, self._env)
        else:
            decoded, verdict = codec.decode(packet), PacketVerdict(Auth.NONE)
            rules.check(decoded)
        return event_of(decoded, verdict, raw, "", self._options, self._env)


def grant_of(event: Event) -> GrantedLease | None:
    """Returns what the mesh granted, if this is its answer to a hello and not somebody's own hello."""
    if event.subject != HELLO_SUBJECT:
        return None
    try:
        fields: Any = json.loads(event.body)
        seconds, subscribed = float(fields["lease_seconds"]), frozenset(fields["subscribed"])
        grant = GrantedLease(seconds, subscribed, int(fields.get("more", 0)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return grant if seconds >= LEAST_LEASE_SECONDS else None

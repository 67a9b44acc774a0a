"""The verdict on a packet, in the order of 6.2: length, fields, HMAC, signature, freshness.

Replay comes after all of these, in the stream's state: what is not authenticated never gets that far under the key of
an authenticated packet (`mapping.dedup_key`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.auth.keyring import Key, KeyRing, usable_at
from gateway.auth.verification import verify_hmac
from gateway.core.event import SECOND_US, Auth
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U64
from gateway.protocols.emm import codec, rules
from gateway.protocols.emm.frames import EventType, FieldType, Packet
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.signing import is_signed_by
from gateway.protocols.spec import CodecContext

_PRESENCE = frozenset({EventType.HELLO, EventType.HEARTBEAT})


@dataclass(frozen=True, slots=True)
class PacketVerdict:
    """Says how a packet was proven.

    `foreign_key` is the public key (13) that the packet brought, if no node's key in the store equals it and the
    listener takes any.
    """

    auth: Auth
    key_id: bytes = b""
    foreign_key: bytes = b""


def judge(raw: bytes, received_at: int, options: EmmOptions, env: CodecContext) -> tuple[Packet, PacketVerdict]:
    """Returns the packet in a datagram and how it was proven. Raises Rejected."""
    packet = codec.decode(raw, ignore_reserved=options.reserved_flags == "ignore")
    rules.check(packet)
    verdict = authenticate(packet, received_at, options, env.keys)
    check_freshness(packet, received_at, options, env)
    return packet, verdict


def authenticate(packet: Packet, received_at: int, options: EmmOptions, keys: KeyRing) -> PacketVerdict:
    """Verifies HMAC first, then signature (4.2). With neither, the listener's options decide.

    Keys are judged at the time of receipt, so that a replay of the log decides as it was decided.
    """
    tag, signature = packet.value(FieldType.HMAC), packet.value(FieldType.SIGNATURE)
    if tag is None and signature is None:
        return _unauthenticated(packet, options)
    signed = codec.canonical(packet)
    verdict = PacketVerdict(Auth.NONE)
    if tag is not None:
        verdict = _check_hmac(_named_keys(packet, keys), signed, tag, received_at)
    if signature is not None:
        by_signature = _check_signature(packet, signed, signature, received_at, options, keys)
        verdict = by_signature if tag is None else PacketVerdict(Auth.HMAC_ED25519, verdict.key_id)
    return verdict


def _unauthenticated(packet: Packet, options: EmmOptions) -> PacketVerdict:
    presence = options.accept_presence and packet.header.event_type in _PRESENCE
    if options.unauthenticated == "reject" and not presence:
        raise Rejected(Reason.UNAUTHENTICATED, "neither HMAC nor signature")
    return PacketVerdict(Auth.NONE)


def _named_keys(packet: Packet, keys: KeyRing) -> tuple[Key, ...]:
    """Returns the keys of (NODE ID, Auth Key ID); without the latter the node's default keys."""
    return keys.named(packet.value(FieldType.NODE_ID) or b"", packet.value(FieldType.AUTH_KEY_ID))


def _check_hmac(named: tuple[Key, ...], signed: bytes, tag: bytes, received_at: int) -> PacketVerdict:
    for key in usable_at(received_at, (key for key in named if key.hmac is not None)):
        if key.hmac is not None and verify_hmac(key.hmac, signed, tag):
            return PacketVerdict(Auth.HMAC, key.key_id)
    raise Rejected(Reason.BAD_HMAC)


def _check_signature(
    packet: Packet, signed: bytes, signature: bytes, received_at: int, options: EmmOptions, keys: KeyRing
) -> PacketVerdict:
    """Verifies the signature. The key that the packet brings (13) takes precedence over the one it names."""
    public = packet.value(FieldType.PUBLIC_KEY)
    if public is None:
        candidates = tuple(key for key in _named_keys(packet, keys) if key.ed25519 is not None)
    else:
        candidates = keys.holding(packet.value(FieldType.NODE_ID) or b"", public)
        if not candidates:
            return _check_foreign(public, signed, signature, options)
    for key in usable_at(received_at, candidates):
        if key.ed25519 is not None and is_signed_by(key.ed25519, signed, signature):
            return PacketVerdict(Auth.ED25519, key.key_id)
    raise Rejected(Reason.BAD_SIGNATURE)


def _check_foreign(public: bytes, signed: bytes, signature: bytes, options: EmmOptions) -> PacketVerdict:
    if options.public_key == "pinned":
        raise Rejected(Reason.UNTRUSTED_KEY, "the public key is none of the node's")
    if not is_signed_by(public, signed, signature):
        raise Rejected(Reason.BAD_SIGNATURE)
    return PacketVerdict(Auth.ED25519, foreign_key=public)


def check_freshness(packet: Packet, received_at: int, options: EmmOptions, env: CodecContext) -> None:
    """Refuses a packet that is not fresh, in whole seconds as the packet counts them (5.4)."""
    signed_at = packet.value(FieldType.TIMESTAMP)
    if options.freshness == "off" or (options.freshness == "timestamp_only" and signed_at is None):
        return
    check_age(packet.header.timestamp if signed_at is None else U64.unpack(signed_at)[0], received_at, env)


def check_age(claimed: int, received_at: int, env: CodecContext) -> None:
    age = received_at // SECOND_US - claimed
    if age > env.replay_window_seconds:
        raise Rejected(Reason.STALE, f"{age} s old")
    if -age > env.clock_skew_seconds:
        raise Rejected(Reason.FUTURE, f"{-age} s ahead")

"""A whole container of packets at once; agrees with `mapping.to_event` packet by packet.

The common packet (`scan`) goes through here with as few steps as possible. All else is handed to the plain path, and so
is each case in which a rule would have to be told a second time here. Tags are verified in one tight loop before events
are made; in the verdict, what the fields hold still comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.auth.keyring import KEY_ID_BYTES, NODE_BYTES, Key, KeyRing, unknown_key
from gateway.auth.verification import ED25519_SIGNATURE_BYTES, HMAC_BYTES, Verifier, hmac_verifier
from gateway.core.event import NO_HEADERS, Auth, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm.body import single_content
from gateway.protocols.emm.frames import Flag
from gateway.protocols.emm.mapping import check_name, decode_name, node_text, sent_at, to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.packet_checks import check_age
from gateway.protocols.emm.rules import check_encoding
from gateway.protocols.emm.scan import Places, scan
from gateway.protocols.emm.signing import is_signed_by
from gateway.protocols.spec import CodecContext, Options
from gateway.records.raw_log.frames import RawFrame

_URGENT, _EVENT = Flag.URGENT.value, Kind.EVENT
_DEFAULTS = EmmOptions()


class Proof(NamedTuple):
    """Says how a packet was proven, and by which key."""

    auth: Auth
    key_id: str


class _Known(NamedTuple):
    """A key as packets name it, prepared for many of them."""

    key: Key
    verify_hmac: Verifier | None
    by_hmac: Proof


NO_KEY = _Known(Key(b""), None, Proof(Auth.NONE, ""))


class KeyMemory(dict[bytes, _Known | None]):
    """The keys that one container's packets name (by NODE ID and Auth Key ID); most of them name the same few.

    `NO_KEY` for a name that means none; None for one that means more than one, or a key that does not hold all the time
    in which the container's packets were received, from `first` to `last`.
    """

    def __init__(self, ring: KeyRing, first: int, last: int) -> None:
        super().__init__()
        self._ring = ring
        self._first, self._last = first, last

    def __missing__(self, name: bytes) -> _Known | None:
        known_key = self[name] = self._look_up(name[:NODE_BYTES], name[NODE_BYTES:])
        return known_key

    def _look_up(self, node: bytes, key_id: bytes) -> _Known | None:
        named = self._ring.named(node, key_id or None)
        if len(named) != 1:
            return None if named else NO_KEY
        key = named[0]
        if not (key.valid_at(self._first) and key.valid_at(self._last)):
            return None
        return _Known(key, None if key.hmac is None else hmac_verifier(key.hmac), Proof(Auth.HMAC, key.key_id.hex()))


def prove(packets: Sequence[bytes], scans: Sequence[Places | None], keys: KeyMemory) -> list[Proof | Rejected | None]:
    """Verifies HMAC, then signature, of the common packets whose key is known.

    None means that the plain path must decide.
    """
    proofs: list[Proof | Rejected | None] = []
    for packet, places in zip(packets, scans, strict=True):
        if places is None:
            proofs.append(None)
            continue
        _, _, _, node, _, key_id, tag, signature = places
        name = packet[node : node + NODE_BYTES]
        key_known = keys[name + packet[key_id : key_id + KEY_ID_BYTES] if key_id else name]
        if key_known is None:
            proofs.append(None)
        elif key_known is NO_KEY:
            proofs.append(unknown_key())
        elif signature or key_known.verify_hmac is None:
            proofs.append(_prove_signature(packet, tag, signature, key_known))
        elif key_known.verify_hmac(packet[: tag - 2], packet[tag : tag + HMAC_BYTES]):
            proofs.append(key_known.by_hmac)
        else:
            proofs.append(Rejected(Reason.BAD_HMAC))
    return proofs


def _prove_signature(packet: bytes, tag: int, signature: int, key_known: _Known) -> Proof | Rejected | None:
    """Proves a packet that has a signature, and maybe an HMAC before it."""
    key = key_known.key
    signed = packet[: (tag or signature) - 2]
    if tag:
        if key_known.verify_hmac is None:
            return None
        if not key_known.verify_hmac(signed, packet[tag : tag + HMAC_BYTES]):
            return Rejected(Reason.BAD_HMAC)
    if key.ed25519 is None:
        return None
    if not is_signed_by(key.ed25519, signed, packet[signature : signature + ED25519_SIGNATURE_BYTES]):
        return Rejected(Reason.BAD_SIGNATURE)
    return Proof(Auth.HMAC_ED25519 if tag else Auth.ED25519, key.key_id.hex())


def to_events(
    raws: Sequence[RawFrame], event_ids: Sequence[str], options: Mapping[str, Options], env: CodecContext, /
) -> list[Event | Rejected]:
    """Returns each packet's event, or why it was refused. `options` are by listener; one that is gone has defaults."""
    if not raws:
        return []
    packets = [raw.data for raw in raws]
    times = [raw.received_at for raw in raws]
    scans = [scan(packet) for packet in packets]
    proofs = prove(packets, scans, KeyMemory(env.keys, min(times), max(times)))
    emm_options = {
        listener: listener_options
        for listener, listener_options in options.items()
        if isinstance(listener_options, EmmOptions)
    }
    events: list[Event | Rejected] = []
    for raw, event_id, places, proof in zip(raws, event_ids, scans, proofs, strict=True):
        chosen = emm_options.get(raw.source.listener, _DEFAULTS)
        try:
            if places is None or proof is None:
                events.append(to_event(raw, event_id, chosen, env))
            else:
                events.append(_common_event(raw, event_id, places, proof, chosen, env))
        except Rejected as refused:
            events.append(refused)
    return events


def _common_event(
    raw: RawFrame, event_id: str, places: Places, proof: Proof | Rejected, options: EmmOptions, env: CodecContext
) -> Event:
    """Checks in the order of `judge`: what the fields hold, the key, the tags, the time."""
    packet, received_at, source = raw.data, raw.received_at, raw.source
    _, name, data, node, signed_at, *_ = places
    subject = decode_name(packet[name : name + packet[name - 1]])
    content_type, body = _content(packet, data)
    if isinstance(proof, Rejected):
        raise proof
    timestamp = int.from_bytes(packet[7:15], "big")
    if options.freshness == "required" or (signed_at and options.freshness == "timestamp_only"):
        check_age(
            int.from_bytes(packet[signed_at : signed_at + 8], "big") if signed_at else timestamp, received_at, env
        )
    check_name(subject)
    # By position: naming them costs as much as the scan does. The tests compare each field with the plain path's.
    return Event(
        event_id,
        _EVENT,
        subject,
        source.protocol,
        source.listener,
        source.edge,
        source.session_id,
        source.peer,
        node_text(packet[node : node + NODE_BYTES]),
        received_at,
        packet[1:5].hex(),
        "",
        content_type,
        body,
        NO_HEADERS,
        packet[5] == _URGENT,
        sent_at(timestamp),
        proof.auth,
        proof.key_id,
        packet,
    )


def _content(packet: bytes, place: int) -> tuple[str, bytes]:
    if not place:
        return "", b""
    kind, value = packet[place - 2], packet[place : place + packet[place - 1]]
    check_encoding(kind, value)
    return single_content(kind, value)

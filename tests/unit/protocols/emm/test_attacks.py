"""Tests what an attacker may try who sees every packet and can send any, but has no key.

Each attempt ends in one refusal with its reason, or in a key of its own that no honest packet has: nothing crashes,
nothing forged passes. Both decoders are asked.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm import codec
from gateway.protocols.emm.batch import to_events
from gateway.protocols.emm.frames import EventType, Field, FieldType, Flag
from gateway.protocols.emm.mapping import dedup_key, partition_key
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import RawFrame
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, NAME, NODE_ID, packet
from tests.unit.protocols.emm.packets import event as event_packet
from tests.unit.protocols.emm.test_batch import plain
from tests.unit.protocols.emm.vectors import (
    E1,
    E2,
    E3,
    E6,
    ENV,
    KEY_ID,
    MESSAGE_ID,
    NODE,
    OPEN,
    RECEIVED_AT,
    SEED,
    SOURCE,
    STRICT,
    TIMESTAMP,
)

AUTHENTICATED = {"E1": E1, "E2": E2, "E3": E3, "E6": E6}
DEVICES = replace(SOURCE, listener="strict")
ATTACKER = Signer(NODE, KEY_ID, b"the attacker's own secret", b"a" * 32)


def judged(packets: list[bytes], *, received_at: int = RECEIVED_AT, env: CodecContext = ENV) -> list[Event | Rejected]:
    """Returns what a container of them becomes; the plain path agrees."""
    raws = [RawFrame(data, DEVICES, received_at) for data in packets]
    found = to_events(raws, [""] * len(raws), {"strict": STRICT}, env)
    for raw, one in zip(raws, found, strict=True):
        again = plain(raw, "", env)
        assert reason_of(one) == reason_of(again)
    return found


def reason_of(one: Event | Rejected) -> Reason | None:
    return one.reason if isinstance(one, Rejected) else None


def reasons(packets: list[bytes], *, received_at: int = RECEIVED_AT) -> set[Reason | None]:
    return {reason_of(one) for one in judged(packets, received_at=received_at)}


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_packet_with_any_bit_flipped_is_refused(name: str) -> None:
    data = AUTHENTICATED[name]
    flipped = [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8)]
    assert None not in reasons(flipped)


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_bit_flipped_in_a_tag_is_a_wrong_tag(name: str) -> None:
    data = AUTHENTICATED[name]
    tag = codec.decode(data).fields[-1]
    reason = Reason.BAD_HMAC if tag.type == FieldType.HMAC else Reason.BAD_SIGNATURE
    start = len(data) - len(tag.value)
    assert reasons([data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(start, len(data))]) == {reason}


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_packet_cut_or_extended_is_refused(name: str) -> None:
    data = AUTHENTICATED[name]
    assert reasons([data[:size] for size in range(len(data))]) == {Reason.TRUNCATED}
    assert reasons([data + bytes(more) for more in range(1, 600)]) == {Reason.MALFORMED}


@pytest.mark.parametrize("name", AUTHENTICATED)
def test_a_packet_cut_or_extended_with_its_length_made_to_fit_is_refused(name: str) -> None:
    data = AUTHENTICATED[name]
    resized = [data[:size] for size in range(17, len(data))] + [data + b"\x7f\0" * n for n in range(1, 20)]
    fitted = [one[:15] + (len(one) - 17).to_bytes(2, "big") + one[17:] for one in resized]
    assert None not in reasons(fitted)


def test_a_packet_signed_with_a_wrong_key_is_refused() -> None:
    draft = codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME,))
    by_hmac, by_signature = replace(ATTACKER, ed25519_private=None), replace(ATTACKER, hmac=None)
    assert reasons([codec.encode(draft, by_hmac)]) == {Reason.BAD_HMAC}
    assert reasons([codec.encode(draft, by_signature)]) == {Reason.BAD_SIGNATURE}
    assert reasons([codec.encode(draft, replace(by_signature, announce=True))]) == {Reason.UNTRUSTED_KEY}


def test_tags_cannot_be_taken_off() -> None:
    """E3 without its signature, without its HMAC, without both; lengths made to fit."""
    fields = codec.decode(E3).fields
    header = codec.decode(E3).header
    for without in ({FieldType.SIGNATURE}, {FieldType.HMAC}, {FieldType.HMAC, FieldType.SIGNATURE}):
        left = [item for item in fields if item.type not in without]
        data = packet(*left, flags=header.flags)
        assert reasons([data]) <= {Reason.BAD_HMAC, Reason.BAD_SIGNATURE, Reason.UNAUTHENTICATED}


def test_a_tag_cannot_be_moved_to_another_packet() -> None:
    tag = codec.decode(E1).fields[-1]
    assert reasons([packet(Field(1, b"door.open"), NODE_ID, AUTH_KEY_ID, tag)]) == {Reason.BAD_HMAC}


def test_another_nodes_key_signs_for_no_one_else() -> None:
    """An honest node with a key of its own, in the name of another."""
    other = b"o" * 16
    ring = KeyRing({**ENV.keys.nodes, other: {KEY_ID: Key(KEY_ID, hmac=b"the other's secret")}})
    own = codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME,)), Signer(other, KEY_ID, b"the other's secret"))
    forged = codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME,)), Signer(NODE, KEY_ID, b"the other's secret"))
    accepted, refused = judged([own, forged], env=replace(ENV, keys=ring))
    assert reason_of(accepted) is None
    assert reason_of(refused) is Reason.BAD_HMAC


def test_a_recorded_packet_is_stale_after_the_window_and_known_within_it() -> None:
    """Within the window the stream's state knows it by its key, through whatever listener it comes."""
    at_once, later = (judged([E1], received_at=RECEIVED_AT + seconds * 1_000_000)[0] for seconds in (0, 300))
    assert isinstance(at_once, Event)
    assert isinstance(later, Event)
    elsewhere = replace(later, listener="other", edge="edge-7", peer="198.51.100.1:1")
    assert dedup_key(at_once, STRICT) == dedup_key(elsewhere, OPEN)
    assert reasons([E1], received_at=RECEIVED_AT + 301_000_000) == {Reason.STALE}


def test_a_packet_prepared_for_later_is_refused_now() -> None:
    assert reasons([event_packet(timestamp=TIMESTAMP + 121)]) == {Reason.FUTURE}


def test_a_hello_aimed_at_a_third_address_is_refused() -> None:
    """The address a datagram names is anybody's; only the tag says who asks for the events."""
    fields = (Field(FieldType.BINARY, b'{"subscribe": [">"]}'), NODE_ID)
    unsigned = packet(*fields, event_type=EventType.HELLO)
    forged = packet(*fields, AUTH_KEY_ID, event_type=EventType.HELLO, signer=ATTACKER)
    assert reasons([unsigned]) == {Reason.UNAUTHENTICATED}
    assert reasons([forged]) == {Reason.BAD_HMAC}


def test_ids_cannot_be_burnt_by_packets_that_prove_nothing() -> None:
    """An id seen on the wire, taken by an unauthenticated packet where the listener takes those."""
    honest = judged([E1])[0]
    assert isinstance(honest, Event)
    forged = to_events([RawFrame(packet(NAME, NODE_ID), DEVICES, RECEIVED_AT)], [""], {"strict": OPEN}, ENV)[0]
    assert isinstance(forged, Event)
    assert (forged.node, forged.message_id) == (honest.node, honest.message_id)
    assert dedup_key(forged, OPEN) != dedup_key(honest, STRICT)


def test_a_gzip_bomb_is_refused_before_it_is_unpacked() -> None:
    """400 bytes that stand for 64 MiB would be twice packed; one layer of zeros shrinks a thousandfold."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(bytes(300_000)) + packer.flush()
    draft = codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME, Field(FieldType.BINARY, bomb)), flags=Flag.COMPRESSED)
    signer = Signer(NODE, KEY_ID, None, SEED)
    assert reasons([codec.encode(draft, signer)]) == {Reason.BOMB}


def test_many_made_up_nodes_cost_no_memory_beyond_their_container() -> None:
    """Node ids chosen by a sender: they spread over partitions or do not, and no key of theirs is remembered."""
    made_up = [
        codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME,)), Signer(n.to_bytes(16, "big"), KEY_ID, b"secret"))
        for n in range(1_000)
    ]
    assert reasons(made_up) == {Reason.UNKNOWN_KEY}
    assert len({partition_key(data) for data in made_up}) == len(made_up)


def test_a_packet_of_many_fields_is_given_up_after_sixty_four() -> None:
    assert reasons([packet(NAME, *[Field(0x7F, b"")] * 260)]) == {Reason.TLV_COUNT}


def test_one_bad_packet_harms_no_other_in_its_container() -> None:
    bad = [b"", b"\0" * 548, b"\xff" * 70_000, E1[:-1], E2[:40]]
    found = judged([E1, *bad, E3] * 60)
    assert [reason_of(one) is None for one in found] == [True, *[False] * len(bad), True] * 60


def test_a_refusal_tells_nothing_of_the_payload() -> None:
    secret = b"do not tell"
    packets = [
        packet(Field(1, secret + b"\xff")),
        packet(NAME, Field(5, secret)),
        packet(NAME, Field(4, secret), NODE_ID, AUTH_KEY_ID, signer=ATTACKER),
    ]
    told = " ".join(f"{one}{one.detail}" for one in judged(packets) if isinstance(one, Rejected))
    assert told
    assert "tell" not in told


@pytest.mark.parametrize("options", [STRICT, EmmOptions(public_key="any", freshness="off", encryption="open")])
def test_no_policy_but_one_lets_packets_without_tags_pass(options: EmmOptions) -> None:
    raws = [RawFrame(packet(NAME, NODE_ID), DEVICES, RECEIVED_AT)]
    assert reason_of(to_events(raws, [""], {"strict": options}, ENV)[0]) is Reason.UNAUTHENTICATED

"""Packets from the template are the protocol's own: the codec's bytes, and the judge's verdict."""

from __future__ import annotations

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.bench.marker import Marker
from gateway.bench.packets import PacketTemplate, first_message_id
from gateway.bench.workload import WorkError
from gateway.core.event import Auth
from gateway.core.reasons import Rejected
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import MAX_PACKET_BYTES, Field, FieldType
from gateway.protocols.emm.mapping import to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.packet_checks import judge
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import FrameSource, RawFrame

NODE, KEY_ID, SECRET, SEED = bytes(15) + b"\1", bytes(3) + b"\7", b"k" * 32, b"s" * 32
ENV = CodecContext(KeyRing({NODE: {KEY_ID: Key(KEY_ID, hmac=SECRET, ed25519=public_of(SEED))}}))
MARKER, SUBJECT, NOW = Marker("c0de"), "bench.c0de", 1_760_000_000
SIGNERS = {
    Auth.HMAC: Signer(NODE, KEY_ID, SECRET),
    Auth.ED25519: Signer(NODE, KEY_ID, ed25519_private=SEED),
    Auth.HMAC_ED25519: Signer(NODE, KEY_ID, SECRET, SEED),
    Auth.NONE: Signer(NODE),
}
for_every_proof = pytest.mark.parametrize("auth", SIGNERS)
SIZES = (180, 200, 400, 500, MAX_PACKET_BYTES)


def template(auth: Auth = Auth.HMAC, size: int = 200, first_id: int = 0) -> PacketTemplate:
    return PacketTemplate(SIGNERS[auth], SUBJECT, size, MARKER, first_id)


@for_every_proof
@pytest.mark.parametrize("size", SIZES)
def test_it_is_byte_for_byte_what_the_codec_writes(auth: Auth, size: int) -> None:
    packet = template(auth, max(size, 220), first_id=40).packet(2, NOW)
    body = next(item.value for item in codec.join_values(codec.decode(packet).fields) if item.type == FieldType.JSON)
    fields = (Field(FieldType.STRING, SUBJECT.encode()), Field(FieldType.JSON, body))
    assert packet == codec.encode(codec.Draft((42).to_bytes(4, "big"), NOW, fields), SIGNERS[auth])
    assert list(MARKER.indices(body)) == [2]


@for_every_proof
def test_a_receiver_that_trusts_the_key_believes_it(auth: Auth) -> None:
    options = EmmOptions(unauthenticated="accept" if auth is Auth.NONE else "reject")
    packet = template(auth, 300).packet(7, NOW)
    _, verdict = judge(packet, NOW * 1_000_000, options, ENV)
    assert verdict.auth is auth


def test_one_changed_bit_is_not_believed() -> None:
    packet = bytearray(template().packet(7, NOW))
    packet[packet.index(b"xx")] ^= 1
    with pytest.raises(Rejected) as refused:
        judge(bytes(packet), NOW * 1_000_000, EmmOptions(), ENV)
    assert refused.value.reason == "bad_hmac"


def test_it_is_the_event_that_subscribers_wait_for() -> None:
    raw = RawFrame(
        template().packet(7, NOW), FrameSource("emm", "devices", "edge-0", 1, peer="192.0.2.1:1"), NOW * 1_000_000
    )
    event = to_event(raw, "0-0-0", EmmOptions(), ENV)
    assert (event.subject, list(MARKER.indices(event.body))) == (SUBJECT, [7])


def test_no_two_of_them_share_a_message_id() -> None:
    made = template(first_id=(1 << 32) - 2)
    ids = [codec.decode(made.packet(index, NOW)).header.message_id.hex() for index in range(4)]
    assert ids == ["fffffffe", "ffffffff", "00000000", "00000001"]


@pytest.mark.parametrize("size", range(200, 240))
def test_they_have_the_size_that_was_asked_for(size: int) -> None:
    assert len(template(size=size).packet(1, NOW)) == size


@pytest.mark.parametrize("size", range(370, MAX_PACKET_BYTES + 1))
def test_where_a_field_s_head_is_in_the_way_they_are_a_little_smaller(size: int) -> None:
    assert size - 2 <= len(template(size=size).packet(1, NOW)) <= size


def test_a_size_without_room_for_what_must_be_in_it_is_refused_with_the_least_that_has() -> None:
    with pytest.raises(WorkError) as refused:
        template(size=100)
    least = int(str(refused.value).split()[-2])
    assert len(template(size=least).packet(1, NOW)) == least


def test_a_run_begins_with_message_ids_that_the_run_before_has_not_reached() -> None:
    """The clock goes on faster than any run counts, so ten seconds at 90,000/s end before the next run's first."""
    began = 1_760_000_000_000_000_000
    assert first_message_id(began) + 900_000 < first_message_id(began + 10_000_000_000)

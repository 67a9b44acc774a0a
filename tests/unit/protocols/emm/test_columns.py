"""Two readers, one truth: what the columns say of a packet, the plain path says too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import Key, KeyRing
from gateway.core.event import NO_HEADERS, Event
from gateway.core.reasons import Rejected
from gateway.protocols.emm import codec, layouts
from gateway.protocols.emm.columns import CommonPackets
from gateway.protocols.emm.frames import Field, FieldType
from gateway.protocols.emm.mapping import dedup_key, node_text, to_event
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext, CommonFrames
from gateway.records.raw_log.container import ContainerBuilder, RecordColumns, read_columns
from gateway.records.raw_log.frames import RawFrame
from tests.unit.protocols.emm.test_batch import CONTAINERS, MANY_KEYS, NIGHT_SECONDS, NIGHTLY, OPTIONS, container
from tests.unit.protocols.emm.vectors import ENV, KEY_ID, NODE, RECEIVED_AT, SECRET, SIGNER, SOURCE, TIMESTAMP

NONCE = "0123456789abcdef"
MANY_KEYS_ENV = replace(ENV, keys=MANY_KEYS)
OWN_COLUMNS = {"id", "received_at", "message_id", "body", "sent_at", "raw"}
HMAC_SIGNER = Signer(NODE, KEY_ID, SECRET)


def record_of(raws: Sequence[RawFrame]) -> RecordColumns:
    builder = ContainerBuilder("edge-0", 1)
    for raw in raws:
        builder.add(raw.source, raw.received_at, raw.data)
    return read_columns(builder.build())


def read(raws: Sequence[RawFrame], reader: CommonPackets | None = None) -> CommonFrames | None:
    reader = reader or CommonPackets(MANY_KEYS_ENV, NONCE)
    record = record_of(raws)
    return reader.read(record, np.arange(len(record)), OPTIONS)


def common_rows(packets: Sequence[bytes]) -> list[int]:
    found = read(from_strict(packets))
    return [] if found is None else found.rows.tolist()


def from_strict(packets: Sequence[bytes]) -> list[RawFrame]:
    source = replace(SOURCE, listener="strict")
    return [RawFrame(packet, source, RECEIVED_AT) for packet in packets]


def packet(body: Field | None, name: bytes = b"temp.high", signer: Signer = SIGNER) -> bytes:
    data = () if body is None else (body,)
    return codec.encode(codec.Draft(b"abcd", TIMESTAMP, (Field(FieldType.STRING, name), *data)), signer)


def check(raws: Sequence[RawFrame], found: CommonFrames | None, env: CodecContext) -> int:
    """Compares each common packet with the plain path's event; returns how many there are."""
    if found is None:
        return 0
    for row, verdict in found.refused.items():
        with pytest.raises(Rejected) as refused_plainly:
            to_event(raws[row], "0-0-0", OPTIONS[raws[row].source.listener], env)
        plain_verdict = refused_plainly.value
        assert (verdict.reason, verdict.detail) == (plain_verdict.reason, plain_verdict.detail), raws[row].data.hex()
    assert not found.refused.keys() & set(found.rows.tolist())
    shared: dict[tuple[int, bytes], tuple[object, ...]] = {}
    rows = zip(
        found.rows.tolist(), found.received_at.tolist(), found.flows, found.repeat_keys, found.message_ids,
        found.sent_at, found.bodies, found.frames, strict=True,
    )  # fmt: skip
    for row, received_at, flow, key, message_id, sent_at, body, frame in rows:
        raw = raws[row]
        try:
            event = to_event(raw, "0-0-0", OPTIONS[raw.source.listener], env)
        except Rejected as refused:  # for its name: then all packets of the flow are
            values: tuple[object, ...] = (refused.reason, refused.detail)
        else:
            said = received_at, message_id.decode(), sent_at, body, frame
            assert said == (event.received_at, event.message_id, event.sent_at, event.body, event.raw)
            assert dedup_key(event, OPTIONS["strict"]) == f"{node_text(key[:16])}:{key[16:].hex()}"
            assert event.headers is NO_HEADERS
            values = tuple(getattr(event, item.name) for item in fields(Event) if item.name not in OWN_COLUMNS)
        assert shared.setdefault((id(raw.source), flow), values) == values
    return len(found)


@pytest.mark.timeout(NIGHT_SECONDS if NIGHTLY else 60)
@settings(max_examples=CONTAINERS, deadline=None)
@given(st.integers(0, 2**64), st.sampled_from([1, 10, 200]))
def test_the_columns_say_of_each_packet_what_the_plain_path_says(seed: int, size: int) -> None:
    raws = container(Random(seed), size)
    check(raws, read(raws), MANY_KEYS_ENV)


def test_among_nearly_right_packets_many_are_common() -> None:
    reader, random = CommonPackets(MANY_KEYS_ENV, NONCE), Random(1)
    found = sum(check(raws, read(raws, reader), MANY_KEYS_ENV) for raws in (container(random, 200) for _ in range(10)))
    assert found > 100


def test_packets_of_all_layouts_are_common_side_by_side() -> None:
    bodies = (
        None, Field(FieldType.JSON, b'{"k": 1}'), Field(FieldType.STRING, "größe".encode()),
        Field(FieldType.INTEGER, b"\xff\xff\xff\xfe"), Field(FieldType.FLOAT, b"\x7f\xc0\0\0"),
        Field(FieldType.BINARY, b"\xff\0"), Field(FieldType.JSON, b"[" * 60 + b"]" * 60),
    )  # fmt: skip
    packets = [packet(body, name) for body in bodies for name in (b"a", b"temp.high")]
    packets += [packet(body, signer=HMAC_SIGNER) for body in bodies]
    assert common_rows(packets) == list(range(len(packets)))
    source = replace(SOURCE, listener="strict")
    raws = [RawFrame(one, source, RECEIVED_AT) for one in packets]
    assert check(raws, read(raws), MANY_KEYS_ENV) == len(packets)


@pytest.mark.parametrize(
    "bodies",
    [
        (b'"a', b'b"'),
        (b"[1", b"2]"),
        (b"[1", b'2],"x",3', b"4"),
        (b'{"a":1', b'"b":2}'),
        (b'"a\\', b'"'),
        (b"", b"1"),
        (b"1,2", b"3"),
        (b"1 2", b"3"),
        (b"NaN", b"1"),
        (b"\xff", b"1"),
        (b"\xc3", b"\xa9"),
        (b"[" * 66 + b"]" * 66, b"1"),
    ],
)
def test_a_body_that_is_no_json_does_not_hide_behind_its_neighbours(bodies: Sequence[bytes]) -> None:
    packets = [packet(Field(FieldType.JSON, body)) for body in (b'{"k":1}', *bodies, b"[2]")]
    source = replace(SOURCE, listener="strict")
    raws = [RawFrame(one, source, RECEIVED_AT) for one in packets]
    rows = common_rows(packets)
    assert check(raws, read(raws), MANY_KEYS_ENV) == len(rows)
    assert 0 in rows
    assert len(packets) - 1 in rows
    assert len(rows) < len(packets)


def test_a_wrong_tag_is_refused_wherever_it_stands_in_the_record() -> None:
    good = packet(Field(FieldType.JSON, b"1"), signer=HMAC_SIGNER)
    signed = packet(Field(FieldType.JSON, b"1"))
    for right in (
        good,
        signed,
        packet(Field(FieldType.JSON, b"1"), signer=Signer(NODE, KEY_ID, None, SIGNER.ed25519_private)),
    ):
        for at in range(len(right) - 64, len(right)):
            wrong = right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :]
            assert common_rows([good, wrong, signed]) == [0, 2]


def test_forged_packets_are_refused_without_the_plain_path() -> None:
    """Each kind is 100 µs in the plain path for somebody who forges, if it goes there."""
    body = Field(FieldType.JSON, b"1")
    nobody = Signer(b"\7" * 16, KEY_ID, SECRET)
    no_such_key = Signer(NODE, b"\7\7\7\7", SECRET, SIGNER.ed25519_private)
    by_signature = Signer(NODE, KEY_ID, None, SIGNER.ed25519_private)
    forged = [flipped(packet(body, signer=signer), -1) for signer in (HMAC_SIGNER, SIGNER, by_signature)]
    forged += [flipped(packet(body), -70), packet(body, signer=nobody), packet(body, signer=no_such_key)]
    stale = codec.encode(codec.Draft(b"abcd", TIMESTAMP - 9_000, (Field(FieldType.STRING, b"a"),)), HMAC_SIGNER)
    raws = from_strict([*forged, flipped(stale, -1)])
    found = read(raws)
    assert found is not None
    check(raws, found, MANY_KEYS_ENV)
    reasons = [found.refused[row].reason for row in range(len(raws))]
    assert reasons == [
        "bad_hmac",
        "bad_signature",
        "bad_signature",
        "bad_hmac",
        "unknown_key",
        "unknown_key",
        "bad_hmac",
    ]


def test_a_forged_packet_that_breaks_another_rule_is_left_to_the_plain_path() -> None:
    """The plain path names that rule, because it comes first."""
    not_json = flipped(packet(Field(FieldType.JSON, b"{"), signer=HMAC_SIGNER), -1)
    not_utf8 = flipped(packet(Field(FieldType.JSON, b"1"), b"\xff", HMAC_SIGNER), -1)
    found = read(from_strict([not_json, not_utf8, packet(None)]))
    assert found is not None
    assert not found.refused


def flipped(right: bytes, at: int) -> bytes:
    wrong = bytearray(right)
    wrong[at] ^= 1
    return bytes(wrong)


def test_a_wrong_signature_is_remembered_and_a_right_one_of_the_same_packet_still_holds() -> None:
    right = packet(Field(FieldType.JSON, b"1"))
    wrong = right[:-1] + bytes([right[-1] ^ 1])
    assert [common_rows([wrong, one]) for one in (right, wrong, right)] == [[1], [], [1]]


def test_tags_that_have_changed_places_are_both_refused() -> None:
    one = packet(Field(FieldType.JSON, b"1"), signer=HMAC_SIGNER)
    other = packet(Field(FieldType.JSON, b"2"), signer=HMAC_SIGNER)
    assert common_rows([one[:-32] + other[-32:], other[:-32] + one[-32:], one]) == [2]


def test_a_key_that_ends_within_the_record_is_left_to_the_plain_path() -> None:
    env = replace(ENV, keys=KeyRing({NODE: {KEY_ID: Key(KEY_ID, hmac=SECRET, not_after=RECEIVED_AT + 10)}}))
    reader = CommonPackets(env, NONCE)
    source = replace(SOURCE, listener="strict")
    one = packet(None, signer=HMAC_SIGNER)
    assert read([RawFrame(one, source, RECEIVED_AT + at) for at in (0, 10)], reader) is None
    forged = flipped(one, -1)
    assert read([RawFrame(forged, source, RECEIVED_AT + at) for at in (0, 10)], reader) is None
    found = read([RawFrame(one, source, RECEIVED_AT + at) for at in (0, 9)], reader)
    assert found is not None
    assert len(found) == 2


def test_a_time_that_no_clock_will_show_is_left_to_the_plain_path() -> None:
    source = replace(SOURCE, listener="open")
    far = [
        codec.encode(codec.Draft(b"abcd", at, (Field(FieldType.STRING, b"a"),)), HMAC_SIGNER)
        for at in (TIMESTAMP, 2**63 - 1, 2**63, 2**64 - 1)
    ]
    found = read([RawFrame(one, source, RECEIVED_AT) for one in far])
    assert found is not None
    assert found.rows.tolist() == [0]


def test_more_layouts_than_are_kept_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "LAYOUTS_KEPT", 64)
    reader = CommonPackets(MANY_KEYS_ENV, NONCE)
    source = replace(SOURCE, listener="strict")
    packets = [
        packet(Field(FieldType.BINARY, bytes(size)), b"n" * width, HMAC_SIGNER)
        for width in range(1, 10)
        for size in range(10)
    ]
    for count in (40, 90, 40, 10, 63):
        raws = [RawFrame(one, source, RECEIVED_AT) for one in packets[:count]]
        found = read(raws, reader)
        assert found is not None
        assert check(raws, found, MANY_KEYS_ENV) >= min(count, 20)
        kept = len(found)
    assert kept == 63


def test_layouts_that_begin_alike_are_told_apart() -> None:
    """Same Payload Length, same length of the name: only what stands behind differs."""
    kinds = (FieldType.STRING, FieldType.BINARY, FieldType.JSON)
    packets = [packet(Field(kind, b"1234"), signer=HMAC_SIGNER) for kind in kinds] * 3
    assert common_rows(packets) == list(range(9))


def test_a_packet_that_ends_before_its_layout_does_is_not_read_beyond_its_end() -> None:
    whole = packet(Field(FieldType.JSON, b"1"), signer=HMAC_SIGNER)
    assert common_rows([whole, whole[:-1], whole, whole[:30]]) == [0, 2]


def test_the_listeners_freshness_decides() -> None:
    late = RECEIVED_AT + 400_000_000
    one = packet(None, signer=HMAC_SIGNER)
    raws = [RawFrame(one, replace(SOURCE, listener=name), late) for name in ("strict", "open", "presence")]
    found = read(raws)
    assert found is not None
    assert found.rows.tolist() == [1, 2]


def main(count: int) -> None:
    """Compares a million and more nearly right packets: `python -m tests.unit.protocols.emm.test_columns`."""
    reader, random, done, common, began = CommonPackets(MANY_KEYS_ENV, NONCE), Random(time.time_ns()), 0, 0, time.time()
    while done < count:
        raws = container(random, 200)
        common += check(raws, read(raws, reader), MANY_KEYS_ENV)
        done += len(raws)
    print(f"{done} packets, {common} common, {time.time() - began:.0f} s: no difference")


if __name__ == "__main__":
    main(1_000_000)

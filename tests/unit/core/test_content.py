"""Values between their forms: what converts, what has no form, and what was never a value."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.content import (
    BINARY,
    JSON,
    MAX_DEPTH,
    MSGPACK,
    TEXT,
    check,
    convert,
    decode_value,
    encode_value,
    from_json,
    from_msgpack,
    to_json,
    to_msgpack,
)
from gateway.core.reasons import Reason, Rejected
from tests.refusals import reason_of

SAME_VALUE = [
    (b'{"a":1}', "81a16101"),
    (b"[1,2,3]", "93010203"),
    (b"null", "c0"),
    (b"true", "c3"),
    (b'"text"', "a474657874"),
    (b"1.5", "cb3ff8000000000000"),
    (b"-1", "ff"),
    (b"18446744073709551615", "cfffffffffffffffff"),
    (b'{"$base64":"aGk="}', "c4026869"),
    (b'[{"$base64":""}]', "91c400"),
    (b'{"$base64":"aGk=","b":1}', "82a724626173653634a461476b3da16201"),
    ('"é"'.encode(), "a2c3a9"),
]

NO_JSON = [
    ("81a16101c0", Reason.BAD_ENCODING),  # a value and then another
    ("c1", Reason.BAD_ENCODING),  # the byte that msgpack never uses
    ("9201", Reason.BAD_ENCODING),  # an array with less than it promises
    ("ddffffffff", Reason.BAD_ENCODING),  # four thousand million items that are not there
    ("a1ff", Reason.BAD_ENCODING),  # a string that is not UTF-8
    ("810101", Reason.UNTRANSLATABLE),  # a key that is no string
    ("81c4016101", Reason.UNTRANSLATABLE),  # likewise
    ("cb7ff0000000000000", Reason.UNTRANSLATABLE),  # infinity
    ("cb7ff8000000000000", Reason.UNTRANSLATABLE),  # not a number
    ("d6ff00000001", Reason.UNTRANSLATABLE),  # a timestamp
    ("c70005", Reason.UNTRANSLATABLE),  # an application's own type
]

NO_MSGPACK = [
    (b"{", Reason.BAD_ENCODING),
    (b"1 2", Reason.BAD_ENCODING),
    (b"NaN", Reason.BAD_ENCODING),
    (b"-Infinity", Reason.BAD_ENCODING),
    (b"'a'", Reason.BAD_ENCODING),
    (b'"\xff"', Reason.BAD_ENCODING),
    ("1".encode("utf-16"), Reason.BAD_ENCODING),
    (b"[" * 100_000, Reason.BAD_ENCODING),
    (b"9" * 10_000, Reason.BAD_ENCODING),
    (b"18446744073709551616", Reason.UNTRANSLATABLE),
    (b"1e999", Reason.UNTRANSLATABLE),
    (b'"\\ud800"', Reason.UNTRANSLATABLE),
    (b'{"\\udfff":1}', Reason.UNTRANSLATABLE),
]


@pytest.mark.parametrize(("as_json", "as_msgpack"), SAME_VALUE)
def test_json_and_msgpack_convert_by_value_both_ways(as_json: bytes, as_msgpack: str) -> None:
    packed = bytes.fromhex(as_msgpack)
    assert convert(as_json, JSON, MSGPACK) == packed
    assert convert(packed, MSGPACK, JSON) == as_json


@pytest.mark.parametrize(("packed", "reason"), NO_JSON)
def test_msgpack_without_a_form_in_json_is_refused(packed: str, reason: Reason) -> None:
    assert reason_of(convert, bytes.fromhex(packed), MSGPACK, JSON) is reason


@pytest.mark.parametrize(("text", "reason"), NO_MSGPACK, ids=lambda value: str(value)[:24])
def test_json_without_a_form_in_msgpack_is_refused(text: bytes, reason: Reason) -> None:
    assert reason_of(convert, text, JSON, MSGPACK) is reason


@pytest.mark.parametrize(
    ("body", "content_type", "wanted", "expected"),
    [
        (b"hi", TEXT, JSON, b'"hi"'),
        (b"hi", TEXT, MSGPACK, b"\xa2hi"),
        (b'"hi"', JSON, TEXT, b"hi"),
        (b"hi", BINARY, JSON, b'{"$base64":"aGk="}'),
        (b"hi", BINARY, MSGPACK, b"\xc4\x02hi"),
        (b'{"$base64":"aGk="}', JSON, BINARY, b"hi"),
        (b"\xc4\x02hi", MSGPACK, BINARY, b"hi"),
        (b"<a/>", "application/xml", JSON, b'{"$base64":"PGEvPg=="}'),
        (b"hi", "", JSON, b'{"$base64":"aGk="}'),
        (b"\x01", "application/x-msgpack", JSON, b"1"),
        (b" 1 ", "Application/JSON; charset=utf-8", MSGPACK, b"\x01"),
        (b" 1 ", "application/json; charset=utf-8", JSON, b" 1 "),
        (b"", BINARY, JSON, b""),
        (b"", JSON, MSGPACK, b""),
        (b"{not json", JSON, JSON, b"{not json"),
    ],
)
def test_a_body_becomes_what_is_wanted(body: bytes, content_type: str, wanted: str, expected: bytes) -> None:
    assert convert(body, content_type, wanted) == expected


@pytest.mark.parametrize(
    ("body", "content_type", "wanted", "reason"),
    [
        (b"1", JSON, TEXT, Reason.UNTRANSLATABLE),
        (b'"text"', JSON, BINARY, Reason.UNTRANSLATABLE),
        (b"\xff", TEXT, JSON, Reason.BAD_ENCODING),
        (b'{"$base64":"aGk="}', JSON, TEXT, Reason.UNTRANSLATABLE),
        (b'"\\ud800"', JSON, TEXT, Reason.UNTRANSLATABLE),
    ],
)
def test_a_body_without_the_wanted_form_is_refused(body: bytes, content_type: str, wanted: str, reason: Reason) -> None:
    assert reason_of(convert, body, content_type, wanted) is reason


@pytest.mark.parametrize("text", [b'{"$base64":"a"}', b'{"$base64":"a b="}', '{"$base64":"é"}'.encode()])
def test_an_object_that_only_looks_like_binary_stays_an_object(text: bytes) -> None:
    assert to_json(from_json(text)) == text


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("item", [b"\x90", b"\x80", b"\xd4\x01\x00"])
def test_to_check_msgpack_keeps_nothing_of_its_values(item: bytes) -> None:
    count = 1_000_000 // len(item)
    body = b"\xdd" + count.to_bytes(4, "big") + item * count
    tracemalloc.start()
    try:
        check(body, MSGPACK)
        assert tracemalloc.get_traced_memory()[1] < 10 * count
        with pytest.raises(Rejected):
            check(body + b"\xc1", MSGPACK)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("item", [b"[]", b"{}", b"1", b'""'])
def test_to_check_json_makes_nothing_of_its_values(item: bytes) -> None:
    body = b"[" + b",".join([item] * 200_000) + b"]"
    tracemalloc.start()
    try:
        check(body, JSON)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


SEEDS = [
    b'{"a":[1,2.5e-3,true,false,null,"x\\u00e9\\n"],"b":{}}', b'"\\ud83d\\ude00"', b'"\\ud800\\\\ud800"', b"-0",
    b"0.1E+10", b"\t[1 , 2]\r\n", b'{"a":1,"a":2}', b"NaN", b"-Infinity", b"01", b"1.", '"é"'.encode(),
]  # fmt: skip
JSON_BYTES = b'[]{}",:\\u019dDefbnrtE+-. \t\n\r\x00\x1f\x7f\x80\xc3\xa9\xff\x0b'


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(JSON_BYTES), st.integers(0, 2))))
@settings(max_examples=2_000, deadline=None)
def test_a_body_is_json_where_the_standard_library_says_so(seed: bytes, changes: list[tuple[int, int, int]]) -> None:
    changed = bytearray(seed)
    for at, byte, replaced in changes:
        changed[at : at + replaced] = bytes([byte])
    body = bytes(changed)
    try:
        json.loads(body.decode(), parse_constant=pytest.fail)
        is_json = True
    except (ValueError, pytest.fail.Exception):
        is_json = False
    assert is_json == (body != b"" and reason_of_check(body) is None)


def reason_of_check(body: bytes) -> Reason | None:
    try:
        check(body, JSON)
    except Rejected as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("item", ["810101", "81cb3ff800000000000001", "81c4016101", "81910101"])
def test_no_dict_is_made_of_keys_that_a_sender_can_choose_to_meet_in_one_slot(
    item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighty thousand such numbers would keep an edge, or a worker, for seconds."""
    unpack, made = msgpack.unpackb, []

    def unpacked(body: bytes, **hooks: Any) -> Any:
        pairs_hook = hooks.pop("object_pairs_hook")

        def hook(pairs: list[Any]) -> Any:
            made.append(pairs_hook(pairs))
            return made[-1]

        return unpack(body, object_pairs_hook=hook, **hooks)

    monkeypatch.setattr(msgpack, "unpackb", unpacked)
    check(bytes.fromhex(item), MSGPACK)
    assert not any(isinstance(value, dict) for value in made)
    assert reason_of(from_msgpack, bytes.fromhex(item)) is Reason.UNTRANSLATABLE


@pytest.mark.parametrize(("encode", "decode"), [(to_json, from_json), (to_msgpack, from_msgpack)])
def test_a_value_may_be_as_deep_as_the_limit_says_and_no_deeper(encode: Any, decode: Any) -> None:
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    assert reason_of(decode, encode(nested(MAX_DEPTH + 1))) is Reason.UNTRANSLATABLE


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", JSON),
        (b"", MSGPACK),
        (b'{"a":[1]}', JSON),
        (b"1e999", JSON),
        (b'"\\uD800\\\\ud800"', JSON),
        (b"\x81\x01\x02", MSGPACK),
        (b"\xc7\x00\x05", MSGPACK),
        (b"\xc3\xa9", TEXT),
        (b"\xff", BINARY),
        (b"\xff", "image/png"),
    ],
)
def test_a_body_that_is_what_its_type_says_passes(body: bytes, content_type: str) -> None:
    check(body, content_type)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"{", JSON), (b"NaN", JSON), (b"\xc1", MSGPACK), (b"\x01\x01", MSGPACK), (b"\xff", TEXT), (b" ", JSON)],
)
def test_a_body_that_is_not_what_its_type_says_is_refused(body: bytes, content_type: str) -> None:
    assert reason_of(check, body, content_type) is Reason.BAD_ENCODING


LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    LEAVES | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_every_value_with_both_forms_survives_the_way_through_either(value: Any) -> None:
    assert from_msgpack(convert(to_json(value), JSON, MSGPACK)) == value
    assert from_json(convert(to_msgpack(value), MSGPACK, JSON)) == value


def converted(body: bytes, content_type: str, wanted: str) -> bytes | Reason:
    try:
        return convert(body, content_type, wanted)
    except Rejected as refused:
        return refused.reason


@given(st.binary(max_size=40), st.sampled_from([JSON, MSGPACK, TEXT, BINARY]), st.sampled_from([JSON, MSGPACK, TEXT]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_convert_to_what_is_wanted_or_are_refused(body: bytes, content_type: str, wanted: str) -> None:
    made = converted(body, content_type, wanted)
    if isinstance(made, Reason):
        assert made in {Reason.BAD_ENCODING, Reason.UNTRANSLATABLE}
    elif content_type != wanted:
        check(made, wanted)


def test_what_is_encoded_reads_as_the_same_value_elsewhere() -> None:
    assert msgpack.unpackb(encode_value({"a": b"\x00"}, MSGPACK)) == {"a": b"\x00"}
    assert decode_value(encode_value("é", TEXT), TEXT) == "é"

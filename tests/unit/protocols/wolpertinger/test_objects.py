"""Typed values and JSON's, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from gateway.core.reasons import Reason
from gateway.protocols.wolpertinger.codec import decode
from gateway.protocols.wolpertinger.frames import MAX_OBJECTS, BadMessage, Call, Object
from gateway.protocols.wolpertinger.objects import Hint, check_number, from_json, hint_of, to_json
from tests.refusals import reason_of
from tests.unit.protocols.wolpertinger.talk import CALL_ID
from tests.unit.protocols.wolpertinger.test_codec import any_objects

GUID = "F5AFEC97-5839-4666-B8D3-8C108B241720"


def read(objects: str) -> list[Any]:
    """The values of these parameters of a call, as JSON has them."""
    call = decode(
        f"<RemoteMethodCall><ComponentName>Core</ComponentName><CallId>{CALL_ID}</CallId>"
        f"<MethodName>say</MethodName><Parameters>{objects}</Parameters></RemoteMethodCall>".encode()
    )
    assert isinstance(call, Call)
    return [to_json(item) for item in call.parameters]


READ = [
    ("string", " as it is ", " as it is "),
    ("string", "", ""),
    ("boolean", "True", True),
    ("boolean", "fAlSe", False),
    ("int32", " -2147483648\n", -2147483648),
    ("int32", "+2147483647", 2147483647),
    ("int64", "9223372036854775807", 9223372036854775807),
    ("uint64", "18446744073709551615", 18446744073709551615),
    ("double", "1.5", 1.5),
    ("double", "\t-1E+3 ", -1000.0),
    ("double", ".5", 0.5),
    ("double", "NaN", "NaN"),
    ("double", "-Infinity", "-INF"),
    ("dateTime", "2012-05-01T10:00:00.1234567Z", "2012-05-01T10:00:00.1234567Z"),
    ("dateTime", "2012-05-01T10:00:00", "2012-05-01T10:00:00Z"),
    ("dateTime", "2012-05-01T10:00:00+02:00", "2012-05-01T08:00:00Z"),
    ("guid", GUID, GUID),
    ("list", "", []),
    ("list", '<object type="int32">1</object><object type="list"><object type="guid">' + GUID + "</object></object>",
     [1, [GUID]]),
    ("fileObject", "<Name>a &amp; b</Name>", '<object type="fileObject"><Name>a &amp; b</Name></object>'),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "written", "value"), READ)
def test_a_value_of_each_type_is_read(type_: str, written: str, value: Any) -> None:
    (found,) = read(f'<object type="{type_}">{written}</object>')
    assert (found, type(found)) == (value, type(value))


def test_an_unknown_object_is_kept_without_what_stands_behind_it() -> None:
    one, other = read('<object type="mountInfo">a</object>\n  <object type="mountInfo"/>\n')
    assert (one, other) == ('<object type="mountInfo">a</object>', '<object type="mountInfo"/>')


UNREAD = [
    ("boolean", "1"),
    ("boolean", ""),
    ("int32", "2147483648"),
    ("int32", "-2147483649"),
    ("int32", "1.0"),
    ("int32", "0x10"),
    ("int32", "1_000"),
    ("int32", "١"),
    ("int32", "9" * 5000),
    ("int64", "9223372036854775808"),
    ("uint64", "-1"),
    ("uint64", "18446744073709551616"),
    ("double", "1,5"),
    ("double", "1e999"),
    ("double", "1_0.0"),
    ("double", ""),
    ("dateTime", "yesterday"),
    ("dateTime", "2012-05-01"),
    ("dateTime", "2012-13-01T10:00:00Z"),
    ("dateTime", "0001-01-01T00:00:00+23:00"),
    ("guid", GUID[:-1]),
    ("guid", f"{{{GUID}}}"),
    ("string", "<b/>"),
    ("list", "<item/>"),
    ("list", "<object/>"),
    ("list", '<object type="int32">one</object>'),
    ("list", '<object type="int32" a="b">1</object>'),
]


@pytest.mark.parametrize(("type_", "written"), UNREAD)
def test_a_value_that_is_not_of_its_type_is_refused(type_: str, written: str) -> None:
    with pytest.raises(BadMessage) as raised:
        read(f'<object type="{type_}">{written}</object>')
    assert raised.value.reason is Reason.BAD_XML


BY_KIND = [
    ("a", "string", "a"),
    (True, "boolean", True),
    (2147483647, "int32", 2147483647),
    (2147483648, "int64", 2147483648),
    (-2147483649, "int64", -2147483649),
    (9223372036854775808, "double", 9223372036854775808),
    (1.0, "double", 1.0),
    (None, "string", ""),
    ({"a": [1]}, "string", '{"a":[1]}'),
    (b"\x01", "string", '{"$base64":"AQ=="}'),
]


@pytest.mark.parametrize(("value", "type_", "held"), BY_KIND)
def test_a_value_of_json_has_a_type_by_its_kind(value: Any, type_: str, held: Any) -> None:
    assert from_json(value) == Object(type_, held)


def test_a_number_too_large_for_any_type_is_not_sent() -> None:
    assert reason_of(from_json, 10**400) is Reason.UNTRANSLATABLE


UNKNOWN = '<object type="fileObject"><Name>a</Name></object>'
HINTED: list[tuple[Any, Hint, Object]] = [
    (1, "uint64", Object("uint64", 1)),
    (1, "double", Object("double", 1)),
    ("NaN", "double", Object("double", "NaN")),
    (GUID, "guid", Object("guid", GUID)),
    (UNKNOWN, "fileObject", Object("fileObject", UNKNOWN)),
    ([1, GUID], ["int64", "guid"], Object("list", (Object("int64", 1), Object("guid", GUID)))),
]


@pytest.mark.parametrize(("value", "hint", "expected"), HINTED)
def test_a_hint_gives_a_value_its_type_back(value: Any, hint: Hint, expected: Object) -> None:
    assert from_json(value, hint) == expected


IGNORED: list[tuple[Any, Hint, Object]] = [
    (-1, "uint64", Object("int32", -1)),
    (True, "int32", Object("boolean", True)),
    (10**30, "uint64", Object("double", 10**30)),
    ("no guid", "guid", Object("string", "no guid")),
    (1, "string", Object("int32", 1)),
    (1, ["int64"], Object("int32", 1)),
    ("True", "boolean", Object("string", "True")),
    ("nan", "double", Object("string", "nan")),
    (True, "double", Object("boolean", True)),
    (1.0, "int32", Object("double", 1.0)),
    (1, "dateTime", Object("int32", 1)),
    (1, "fileObject", Object("int32", 1)),
    ([1], "guid", Object("list", (Object("int32", 1),))),
    ([1], ["int64", "guid"], Object("list", (Object("int64", 1),))),
    ([1, 2], ["int64"], Object("list", (Object("int64", 1), Object("int32", 2)))),
    ("<a", "fileObject", Object("string", "<a")),
    ("\ud800", "fileObject", Object("string", "\ud800")),
    (UNKNOWN, "mountInfo", Object("string", UNKNOWN)),
    ("<RemoteError/>", "fileObject", Object("string", "<RemoteError/>")),
    ('<object type="list"/>', "list", Object("string", '<object type="list"/>')),
    ("<!DOCTYPE a>" + UNKNOWN, "fileObject", Object("string", "<!DOCTYPE a>" + UNKNOWN)),
]


@pytest.mark.parametrize(("value", "hint", "expected"), IGNORED)
def test_a_hint_that_does_not_fit_is_ignored(value: Any, hint: Hint, expected: Object) -> None:
    assert from_json(value, hint) == expected


def test_an_unknown_object_is_written_again_so_that_it_fits_into_a_message() -> None:
    assert from_json('<?xml version="1.0"?>\n' + UNKNOWN, "fileObject") == Object("fileObject", UNKNOWN)


@settings(deadline=None, max_examples=200)
@given(any_objects)
def test_json_and_a_hint_say_all_that_an_object_says(item: Object) -> None:
    assert from_json(to_json(item), hint_of(item)) == item


@pytest.mark.parametrize(
    "of", [lambda number: [0] * number, lambda number: [[0] * (number - 1)], lambda number: [[], [[0] * (number - 3)]]]
)
def test_so_many_values_become_objects_and_no_more(of: Callable[[int], list[Any]]) -> None:
    check_number(of(MAX_OBJECTS))
    assert reason_of(check_number, of(MAX_OBJECTS + 1)) is Reason.TOO_LARGE


@pytest.mark.timeout(30)
@pytest.mark.parametrize("digits", ["1" * 700_000, "." + "1" * 700_000, "1." + "1" * 700_000, "1e" + "1" * 700_000])
def test_many_digits_that_are_no_number_take_no_longer_than_other_text(digits: str) -> None:
    """A pattern that may cut a run of digits in two tries each cut, which takes an hour for these."""
    with pytest.raises(BadMessage):
        read(f'<object type="double">{digits}x</object>')

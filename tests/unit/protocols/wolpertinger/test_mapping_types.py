"""Types that JSON does not say: a header takes them from one peer of wolpertinger to another."""

from __future__ import annotations

import json

import pytest

from gateway.core.event import Kind
from gateway.protocols.wolpertinger.codec import encode
from gateway.protocols.wolpertinger.frames import Call, CallResponse, Object
from gateway.protocols.wolpertinger.mapping import MAX_TYPES_CHARACTERS, TYPES_HEADER, UNSTAMPED_CALL_ID
from tests.unit.protocols.wolpertinger.events import event, event_of, message_for
from tests.unit.protocols.wolpertinger.talk import CALL_ID, call, text

GUID = Object("guid", CALL_ID)


def test_types_that_json_does_not_say_travel_beside_it() -> None:
    parameters = (GUID, Object("uint64", 1), Object("list", (Object("dateTime", "2012-05-01T10:00:00Z"),)))
    found = event_of(call("A", "b", *parameters))
    assert json.loads(found.headers[TYPES_HEADER]) == ["guid", "uint64", ["dateTime"]]
    assert message_for(found) == Call("A", UNSTAMPED_CALL_ID, "b", parameters)


def test_an_object_of_an_unknown_type_is_text_to_others_and_itself_to_a_peer_of_wolpertinger() -> None:
    sent = encode(CallResponse("Files", CALL_ID, text("?"))).replace(b'"string">?', b'"fileObject"><Name>a</Name>')
    found = event_of(sent, "r1")
    namespace = 'xmlns="http://nerdcave.eu/wolpertinger"'
    xml = f'<object {namespace} type="fileObject"><Name>a</Name></object>'
    assert json.loads(found.body) == xml
    assert message_for(found) == CallResponse("orders", CALL_ID, Object("fileObject", xml))


def test_types_that_are_too_many_to_tell_are_left_out() -> None:
    fits = (MAX_TYPES_CHARACTERS - 1) // len('"guid",')
    assert TYPES_HEADER in event_of(call("A", "b", *[GUID] * fits)).headers
    assert TYPES_HEADER not in event_of(call("A", "b", *[GUID] * (fits + 1))).headers


@pytest.mark.parametrize("types", ["{", "7", '{"a":1}', "[" * 100_000, '[{"a":1}]', "[7]", '["guid","guid"]', "[null]"])
def test_types_that_make_no_sense_are_ignored(types: str) -> None:
    given_event = event(Kind.EVENT, "a.b", b'["x"]', wolpertinger_types=types)
    assert message_for(given_event) == Call("a", UNSTAMPED_CALL_ID, "b", (text("x"),))

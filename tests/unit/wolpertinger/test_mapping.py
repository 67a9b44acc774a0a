"""wolpertinger messages to events and back, and what is lost on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import KeyRing
from gateway.content import BINARY, JSON, MSGPACK, TEXT, to_msgpack
from gateway.event import Auth, Event, Kind
from gateway.protocols import protocols
from gateway.protocols.spec import Encoded, Env, Target
from gateway.protocols.wolpertinger import PROTOCOL
from gateway.protocols.wolpertinger.codec import decode, encode
from gateway.protocols.wolpertinger.error_codes import CODE_HEADER
from gateway.protocols.wolpertinger.frames import (
    MAX_XML_BYTES,
    WHOLE_BYTES,
    BadMessage,
    Call,
    ErrorCode,
    Message,
    Object,
    RemoteError,
    Response,
)
from gateway.protocols.wolpertinger.mapping import (
    MAX_TYPES_CHARACTERS,
    TYPES_HEADER,
    UNSTAMPED_CALL_ID,
    dedup_key,
    from_event,
    to_event,
)
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.transmission import pack
from gateway.reasons import MeshError, Reason, Rejected
from tests.unit.contract.conversation import asked_by, raw
from tests.unit.wolpertinger.talk import CALL_ID, VECTOR_CIPHER, call, text
from tests.unit.wolpertinger.test_codec import any_objects, legal_text

ENV = Env(KeyRing())
OPTIONS = WolpertingerOptions()
GUID = Object("guid", CALL_ID)


def event_of(message: Message | bytes, *replies: str) -> Event:
    data = message if isinstance(message, bytes) else encode(message)
    asked = [asked_by(request, "orders.create") for request in replies]
    return to_event(raw(data, "wolpertinger", *asked), "0-7-1", OPTIONS, ENV)


def event(kind: Kind, subject: str, body: bytes = b"", content_type: str = JSON, **headers: str) -> Event:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Event("0-7-1", kind, subject, "yamp", "apps", "edge-1", "edge-1.1.7", "p", "n", 1,
                 content_type=content_type, body=body, headers=named)  # fmt: skip


def encoded(given: Event) -> Encoded:
    request = CALL_ID if given.kind.answers else ""
    return from_event(given, Target("wolpertinger", "plc", request=request), OPTIONS, ENV)


def message_for(given: Event) -> Message:
    return decode(encoded(given).frame)


def test_the_protocol_is_found_by_its_folder() -> None:
    assert protocols()["wolpertinger"] is PROTOCOL
    assert PROTOCOL.calls_may_be_events


# -- from the peer -------------------------------------------------------------------------------------------------


def test_a_call_is_a_request_with_its_parameters_as_an_array() -> None:
    found = event_of(call("Plant.Ovens", "Heat", text("a"), Object("int32", 3), Object("boolean", True)))
    assert (found.kind, found.subject, found.message_id) == (Kind.REQUEST, "Plant.Ovens.Heat", CALL_ID)
    assert (found.content_type, json.loads(found.body)) == (JSON, ["a", 3, True])
    assert (found.id, found.node, found.peer, found.session) == ("0-7-1", "node-3", "192.0.2.1:40000", "edge-0.1.3")
    assert (found.auth, dict(found.headers), found.correlation) == (Auth.NONE, {}, "")


def test_a_call_without_parameters_has_an_empty_array() -> None:
    assert event_of(call("Core", "Tick")).body == b"[]"


def test_a_call_without_a_component_is_its_method() -> None:
    assert event_of(call("", "tick")).subject == "tick"


CONTROL = [
    (call("Mesh", "Subscribe", text("a.>")), "mesh.subscribe", {"subject": "a.>"}),
    (call("MESH", "subscribe", text("a.>"), text("g")), "mesh.subscribe", {"subject": "a.>", "group": "g"}),
    (call("mesh", "Unsubscribe", text("a.>")), "mesh.unsubscribe", {"subject": "a.>"}),
    (call("Mesh", "Serve", text("a.>")), "mesh.serve", {"subject": "a.>"}),
    (call("Mesh", "UNSERVE", text("a.>")), "mesh.unserve", {"subject": "a.>"}),
    (call("Mesh", "Subscribe"), "mesh.subscribe", {}),
    (call("Mesh", "Subscribe", Object("int32", 5)), "mesh.subscribe", {"subject": 5}),
    (call("Mesh", "Subscribe", text("a"), text("g"), text("?")), "mesh.subscribe", ["a", "g", "?"]),
    (call("Mesh", "Ping", text("x")), "mesh.ping", ["x"]),
    (call("Mesh", "Other"), "mesh.other", []),
]


@pytest.mark.parametrize(("control", "subject", "body"), CONTROL)
def test_a_control_call_says_what_the_mesh_wants_to_hear(control: Call, subject: str, body: Any) -> None:
    found = event_of(control)
    assert (found.kind, found.subject, found.message_id) == (Kind.REQUEST, subject, CALL_ID)
    assert (found.content_type, json.loads(found.body)) == (JSON, body)


def test_a_component_that_only_begins_like_the_mesh_is_any_other() -> None:
    assert event_of(call("Meshes", "Subscribe", text("a"))).subject == "Meshes.Subscribe"
    assert event_of(call("Mesh.Session", "opened")).subject == "Mesh.Session.opened"


def test_a_response_is_a_bare_value() -> None:
    found = event_of(Response("Orders", CALL_ID, Object("int32", 6)), "r1")
    assert (found.kind, found.subject, found.correlation) == (Kind.RESPONSE, "orders.create", CALL_ID)
    assert (found.content_type, found.body, found.message_id) == (JSON, b"6", "")


def test_a_response_without_a_value_has_no_body() -> None:
    found = event_of(Response("Orders", CALL_ID), "r1")
    assert (found.content_type, found.body) == ("", b"")


@pytest.mark.parametrize("answer", [Response("Orders", CALL_ID), RemoteError("Orders", 100, CALL_ID)])
def test_an_answer_that_nobody_asked_for_is_refused(answer: Message) -> None:
    with pytest.raises(Rejected) as raised:
        event_of(answer)
    assert raised.value.reason is Reason.MALFORMED


ERRORS = [
    (304, "no_responder"),
    (303, "no_responder"),
    (400, "timeout"),
    (201, "forbidden"),
    (305, "bad_request"),
    (100, "internal"),
    (502, "item_not_found"),
    (306, "unsupported_type"),
    (777, "777"),
    (-1, "-1"),
]


@pytest.mark.parametrize(("code", "slug"), ERRORS)
def test_an_error_has_the_meshs_slug_and_keeps_its_code(code: int, slug: str) -> None:
    found = event_of(RemoteError("Orders", code, CALL_ID), "r1")
    assert (found.kind, found.subject, found.correlation) == (Kind.ERROR, "orders.create", CALL_ID)
    assert dict(found.headers) == {CODE_HEADER: str(code)}
    assert json.loads(found.body)["code"] == slug
    assert str(code) in json.loads(found.body)["message"]


def test_an_error_that_no_call_caused_is_an_event() -> None:
    found = event_of(RemoteError("Files", 501))
    assert (found.kind, found.subject, found.correlation) == (Kind.EVENT, "wolpertinger.error", "")
    assert found.headers["wolpertinger-component"] == "Files"


def test_a_heartbeat_is_progress_of_those_who_asked() -> None:
    found = event_of(call("Core", "Heartbeat"), "r1", "r2")
    assert (found.kind, found.subject) == (Kind.PROGRESS, "orders.create")


def test_broken_xml_is_refused_with_its_reason() -> None:
    with pytest.raises(BadMessage) as raised:
        event_of(b"<Hello/>")
    assert raised.value.reason is Reason.BAD_XML


def test_a_repeated_call_is_the_same_call_in_either_case_and_in_its_session_only() -> None:
    one, upper = event_of(call("A", "b")), event_of(call("A", "b", call_id=CALL_ID.upper()))
    assert dedup_key(one, OPTIONS) == dedup_key(upper, OPTIONS) == f"edge-0.1.3 {CALL_ID}"
    assert dedup_key(event_of(Response("A", CALL_ID), "r1"), OPTIONS) is None


# -- towards the peer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.EVENT, Kind.REQUEST])
def test_an_event_is_a_call_on_its_subject_split_at_the_last_dot(kind: Kind) -> None:
    out = encoded(event(kind, "plant.ovens.heat", b'["a",3]'))
    assert decode(out.frame) == Call("plant.ovens", UNSTAMPED_CALL_ID, "heat", (text("a"), Object("int32", 3)))
    (at,) = out.stamps
    assert out.frame[at : at + 36] == UNSTAMPED_CALL_ID.encode()


def test_the_stamp_is_the_call_id_whatever_the_component_is_called() -> None:
    out = encoded(event(Kind.EVENT, "<CallId>.heat"))
    (at,) = out.stamps
    assert out.frame[at : at + 36] == UNSTAMPED_CALL_ID.encode()


def test_a_subject_of_one_token_is_a_method_without_a_component() -> None:
    assert message_for(event(Kind.EVENT, "tick")) == Call("", UNSTAMPED_CALL_ID, "tick")


@pytest.mark.parametrize("subject", ["tick.", "a\0b.c"])
def test_a_subject_that_names_no_method_is_untranslatable(subject: str) -> None:
    untranslatable = event(Kind.EVENT, subject)
    with pytest.raises(Rejected) as raised:
        encoded(untranslatable)
    assert raised.value.reason is Reason.UNTRANSLATABLE


BODIES: list[tuple[bytes, str, tuple[Object, ...]]] = [
    (b"", JSON, ()),
    (b"[]", JSON, ()),
    (b"6", JSON, (Object("int32", 6),)),
    (b"[[1]]", JSON, (Object("list", (Object("int32", 1),)),)),
    (b'{"a":1}', JSON, (text('{"a":1}'),)),
    (b"null", JSON, (text(""),)),
    (b"hello", TEXT, (text("hello"),)),
    (b"\x00\xff", BINARY, (text('{"$base64":"AP8="}'),)),
    (b"\x00\xff", "", (text('{"$base64":"AP8="}'),)),
    (to_msgpack(["a", 1.5]), MSGPACK, (text("a"), Object("double", 1.5))),
]


@pytest.mark.parametrize(("body", "content_type", "parameters"), BODIES)
def test_a_body_that_is_no_array_is_one_parameter(
    body: bytes, content_type: str, parameters: tuple[Object, ...]
) -> None:
    message = message_for(event(Kind.EVENT, "a.b", body, content_type))
    assert message == Call("a", UNSTAMPED_CALL_ID, "b", parameters)


def test_a_body_that_is_not_what_it_says_is_refused() -> None:
    broken = event(Kind.EVENT, "a.b", b"{")
    with pytest.raises(Rejected) as raised:
        encoded(broken)
    assert raised.value.reason is Reason.BAD_ENCODING


RESPONSES: list[tuple[bytes, Object | None]] = [
    (b"", None),
    (b"null", None),
    (b"6", Object("int32", 6)),
    (b"[6]", Object("list", (Object("int32", 6),))),
]


@pytest.mark.parametrize(("body", "value"), RESPONSES)
def test_a_response_carries_the_value_of_its_body(body: bytes, value: Object | None) -> None:
    assert message_for(event(Kind.RESPONSE, "Orders.create", body)) == Response("Orders", CALL_ID, value)


@pytest.mark.parametrize("content_type", ["", BINARY, JSON, MSGPACK, TEXT])
def test_a_response_without_a_body_has_no_value_whatever_its_type(content_type: str) -> None:
    assert message_for(event(Kind.RESPONSE, "a.b", b"", content_type)) == Response("a", CALL_ID)


def test_a_response_without_a_value_arrives_without_one() -> None:
    assert message_for(event_of(Response("orders", CALL_ID), "r1")) == Response("orders", CALL_ID)


@pytest.mark.parametrize("method", ["subscribe", "unsubscribe", "serve", "unserve"])
def test_the_answer_to_a_control_call_is_true(method: str) -> None:
    answer = message_for(event(Kind.RESPONSE, f"mesh.{method}", b'{"ok":true}'))
    assert answer == Response("Mesh", CALL_ID, Object("boolean", True))


def test_the_answer_to_a_ping_is_what_the_mesh_says() -> None:
    answer = message_for(event(Kind.RESPONSE, "mesh.ping", b'{"body":1}'))
    assert answer == Response("Mesh", CALL_ID, text('{"body":1}'))


@pytest.mark.parametrize("body", [{"subject": "a.>"}, {"subject": "a.>", "group": "g"}])
def test_a_control_request_is_written_as_it_is_read(body: dict[str, str]) -> None:
    written = encoded(event(Kind.REQUEST, "mesh.subscribe", json.dumps(body).encode())).frame
    assert decode(written) == Call("mesh", UNSTAMPED_CALL_ID, "subscribe", tuple(map(text, body.values())))
    found = event_of(written)
    assert (found.subject, json.loads(found.body)) == ("mesh.subscribe", body)


CODES = [
    (MeshError.NO_RESPONDER, ErrorCode.COMPONENT_NOT_FOUND),
    (MeshError.TIMEOUT, ErrorCode.RESPONSE),
    (MeshError.FORBIDDEN, ErrorCode.NOT_AUTHORISED),
    (MeshError.BAD_REQUEST, ErrorCode.INVALID_PARAMETERS),
    (MeshError.INTERNAL, ErrorCode.UNSPECIFIED),
    (MeshError.UNDELIVERABLE, ErrorCode.RESPONSE),
]


@pytest.mark.parametrize(("slug", "code"), CODES)
def test_an_error_of_the_mesh_has_its_code(slug: MeshError, code: ErrorCode) -> None:
    body = json.dumps({"code": slug, "message": ""}).encode()
    for given_error in (event(Kind.ERROR, "a.b", body, mesh_error=slug), event(Kind.ERROR, "a.b", body)):
        out = encoded(given_error)
        assert (decode(out.frame), out.losses) == (RemoteError("a", code, CALL_ID), ())


def test_a_method_that_is_missing_beside_others_is_told_from_a_missing_component() -> None:
    beside = event(Kind.ERROR, "a.b", b"{}", mesh_error="no_responder", served_beside="true")
    assert message_for(beside) == RemoteError("a", ErrorCode.METHOD_NOT_FOUND, CALL_ID)
    other = event(Kind.ERROR, "a.b", b"{}", mesh_error="timeout", served_beside="true")
    assert message_for(other) == RemoteError("a", ErrorCode.RESPONSE, CALL_ID)


def test_a_code_of_wolpertinger_goes_before_all() -> None:
    error = event(Kind.ERROR, "a.b", b"{}", mesh_error="no_responder", wolpertinger_code="303")
    assert message_for(error) == RemoteError("a", 303, CALL_ID)


NUMBERS = [
    (b'{"code":404,"message":"gone"}', JSON, 404),
    (b'{"code":"-7"}', JSON, -7),
    (b'{"code":"item_not_found"}', JSON, 502),
    (to_msgpack({"code": 2147483647}), MSGPACK, 2147483647),
]


@pytest.mark.parametrize(("body", "content_type", "code"), NUMBERS)
def test_an_error_keeps_the_number_that_its_body_names(body: bytes, content_type: str, code: int) -> None:
    out = encoded(event(Kind.ERROR, "a.b", body, content_type))
    assert (decode(out.frame), out.losses) == (RemoteError("a", code, CALL_ID), ())


@pytest.mark.parametrize("code", [-1, *ErrorCode])
def test_an_error_keeps_its_code_through_a_protocol_that_has_only_a_body(code: int) -> None:
    body = event_of(RemoteError("a", code, CALL_ID), "r1").body
    again = message_for(event(Kind.ERROR, "a.b", body))
    # 303 and 304 are one thing to others.
    assert again == RemoteError("a", 304 if code == 303 else code, CALL_ID)


NO_NUMBER = [
    event(Kind.ERROR, "a.b", b'{"code":"boom"}'),
    event(Kind.ERROR, "a.b", b'{"code":[]}'),
    event(Kind.ERROR, "a.b", b'{"code":true}'),
    event(Kind.ERROR, "a.b", b'{"code":1.5}'),
    event(Kind.ERROR, "a.b", b'{"code":2147483648}'),
    event(Kind.ERROR, "a.b", b'{"code":"0x65"}'),
    event(Kind.ERROR, "a.b", b"{"),
    event(Kind.ERROR, "a.b", b"boom", TEXT),
    event(Kind.ERROR, "a.b", b"boom", TEXT, wolpertinger_code="2147483648"),
    event(Kind.ERROR, "a.b", b"boom", TEXT, wolpertinger_code="many"),
    event(Kind.CANCELLED, "a.b", b'{"code":"timeout"}'),
]


@pytest.mark.parametrize("error", NO_NUMBER)
def test_an_error_without_a_number_is_100_and_loses_its_body(error: Event) -> None:
    out = encoded(error)
    assert (decode(out.frame), out.losses) == (RemoteError("a", ErrorCode.UNSPECIFIED, CALL_ID), ("body",))


def test_an_empty_error_loses_nothing() -> None:
    assert encoded(event(Kind.CANCELLED, "a.b")).losses == ()


def test_progress_is_a_heartbeat_without_its_body() -> None:
    out = encoded(event(Kind.PROGRESS, "a.b", b"50"))
    assert decode(out.frame) == Call("Core", UNSTAMPED_CALL_ID, "Heartbeat")
    assert (len(out.stamps), out.losses) == (1, ("body",))


def test_a_cancel_is_lost() -> None:
    assert encoded(event(Kind.CANCEL, "a.b")) == Encoded(b"", losses=("cancel",))


def test_a_message_may_be_as_large_as_a_peer_takes() -> None:
    room = MAX_XML_BYTES - len(encoded(event(Kind.EVENT, "a.b", b"x", TEXT)).frame) + 1
    largest = encoded(event(Kind.EVENT, "a.b", b"x" * room, TEXT)).frame
    assert len(pack(largest, VECTOR_CIPHER, compress=False).text) <= WHOLE_BYTES
    too_large = event(Kind.EVENT, "a.b", b"x" * (room + 1), TEXT)
    with pytest.raises(Rejected) as raised:
        encoded(too_large)
    assert raised.value.reason is Reason.TOO_LARGE


# -- between two peers of wolpertinger -----------------------------------------------------------------------------


def test_types_that_json_does_not_say_travel_beside_it() -> None:
    parameters = (GUID, Object("uint64", 1), Object("list", (Object("dateTime", "2012-05-01T10:00:00Z"),)))
    found = event_of(call("A", "b", *parameters))
    assert json.loads(found.headers[TYPES_HEADER]) == ["guid", "uint64", ["dateTime"]]
    assert message_for(found) == Call("A", UNSTAMPED_CALL_ID, "b", parameters)


def test_an_object_of_an_unknown_type_is_text_to_others_and_itself_to_a_peer_of_wolpertinger() -> None:
    sent = encode(Response("Files", CALL_ID, text("?"))).replace(b'"string">?', b'"fileObject"><Name>a</Name>')
    found = event_of(sent, "r1")
    namespace = 'xmlns="http://nerdcave.eu/wolpertinger"'
    xml = f'<object {namespace} type="fileObject"><Name>a</Name></object>'
    assert json.loads(found.body) == xml
    assert message_for(found) == Response("orders", CALL_ID, Object("fileObject", xml))


def test_types_that_are_too_many_to_tell_are_left_out() -> None:
    fits = (MAX_TYPES_CHARACTERS - 1) // len('"guid",')
    assert TYPES_HEADER in event_of(call("A", "b", *[GUID] * fits)).headers
    assert TYPES_HEADER not in event_of(call("A", "b", *[GUID] * (fits + 1))).headers


@pytest.mark.parametrize("types", ["{", "7", '{"a":1}', "[" * 100_000, '[{"a":1}]', "[7]", '["guid","guid"]', "[null]"])
def test_types_that_make_no_sense_are_ignored(types: str) -> None:
    given_event = event(Kind.EVENT, "a.b", b'["x"]', wolpertinger_types=types)
    assert message_for(given_event) == Call("a", UNSTAMPED_CALL_ID, "b", (text("x"),))


@settings(deadline=None, max_examples=100)
@given(legal_text.filter(lambda name: name.lower() != "mesh"), legal_text.filter(lambda name: name and "." not in name),
       st.lists(any_objects, max_size=4).map(tuple))  # fmt: skip
def test_a_call_arrives_as_it_was_sent(component: str, method: str, parameters: tuple[Object, ...]) -> None:
    sent = Call(component, CALL_ID, method, parameters)
    assert message_for(event_of(sent)) == Call(component, UNSTAMPED_CALL_ID, method, parameters)


@settings(deadline=None, max_examples=100)
@given(any_objects)
def test_a_response_arrives_as_it_was_sent(value: Object) -> None:
    answer = message_for(event_of(Response("orders", CALL_ID, value), "r1"))
    assert answer == Response("orders", CALL_ID, value)


@pytest.mark.parametrize("code", [100, 201, 303, 306, 502, 777, -(1 << 31), (1 << 31) - 1])
def test_an_error_arrives_with_its_own_code(code: int) -> None:
    assert message_for(event_of(RemoteError("orders", code, CALL_ID), "r1")) == RemoteError("orders", code, CALL_ID)

"""A RemoteMethodCall to an event and back: requests, control calls, progress, and what is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.content import BINARY, JSON, MSGPACK, TEXT, to_msgpack
from gateway.core.event import Auth, Kind
from gateway.core.reasons import Reason
from gateway.protocols import protocols
from gateway.protocols.spec import Encoded
from gateway.protocols.wolpertinger import PROTOCOL
from gateway.protocols.wolpertinger.codec import decode
from gateway.protocols.wolpertinger.frames import MAX_XML_BYTES, WHOLE_BYTES, BadMessage, Call, CallResponse, Object
from gateway.protocols.wolpertinger.mapping import UNSTAMPED_CALL_ID, dedup_key
from gateway.protocols.wolpertinger.transmission import pack
from tests.refusals import reason_of
from tests.unit.core.subjects import subjects
from tests.unit.protocols.wolpertinger.events import OPTIONS, encoded, event, event_of, message_for
from tests.unit.protocols.wolpertinger.talk import CALL_ID, VECTOR_CIPHER, call, text
from tests.unit.protocols.wolpertinger.test_codec import any_objects


def test_the_protocol_is_found_by_its_folder() -> None:
    assert protocols()["wolpertinger"] is PROTOCOL
    assert PROTOCOL.calls_may_be_events


# -- from the peer ----------------------------------------------------------------------------------------------------


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


def test_a_heartbeat_is_progress_of_those_who_asked() -> None:
    found = event_of(call("Core", "Heartbeat"), "r1", "r2")
    assert (found.kind, found.subject) == (Kind.PROGRESS, "orders.create")


def test_broken_xml_is_refused_with_its_reason() -> None:
    with pytest.raises(BadMessage) as raised:
        event_of(b"<Hello/>")
    assert raised.value.reason is Reason.BAD_XML


def test_a_repeated_call_is_the_same_call_in_either_case_and_in_its_session_only() -> None:
    one, upper = event_of(call("A", "b")), event_of(call("A", "b", call_id=CALL_ID.upper()))
    assert dedup_key(one, OPTIONS) == dedup_key(upper, OPTIONS) == f"wolpertinger\0edge-0.1.3\0{CALL_ID}"
    assert dedup_key(event_of(CallResponse("A", CALL_ID), "r1"), OPTIONS) is None


# -- towards the peer -------------------------------------------------------------------------------------------------


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
    assert reason_of(encoded, untranslatable) is Reason.UNTRANSLATABLE


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
    assert reason_of(encoded, broken) is Reason.BAD_ENCODING


@pytest.mark.parametrize("body", [{"subject": "a.>"}, {"subject": "a.>", "group": "g"}])
def test_a_control_request_is_written_as_it_is_read(body: dict[str, str]) -> None:
    written = encoded(event(Kind.REQUEST, "mesh.subscribe", json.dumps(body).encode())).frame
    assert decode(written) == Call("mesh", UNSTAMPED_CALL_ID, "subscribe", tuple(map(text, body.values())))
    found = event_of(written)
    assert (found.subject, json.loads(found.body)) == ("mesh.subscribe", body)


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
    assert reason_of(encoded, too_large) is Reason.TOO_LARGE


# -- between two peers of wolpertinger --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given((st.just("") | subjects(20)).filter(lambda name: name.lower() != "mesh"),
       subjects(20).filter(lambda name: "." not in name), st.lists(any_objects, max_size=4).map(tuple))  # fmt: skip
def test_a_call_arrives_as_it_was_sent(component: str, method: str, parameters: tuple[Object, ...]) -> None:
    sent = Call(component, CALL_ID, method, parameters)
    assert message_for(event_of(sent)) == Call(component, UNSTAMPED_CALL_ID, method, parameters)

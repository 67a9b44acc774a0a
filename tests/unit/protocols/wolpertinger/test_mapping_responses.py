"""A RemoteMethodResponse to an event and back: a bare value, or none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from gateway.core.content import BINARY, JSON, MSGPACK, TEXT
from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.frames import CallResponse, Message, Object, RemoteError
from tests.unit.protocols.wolpertinger.events import event, event_of, message_for
from tests.unit.protocols.wolpertinger.talk import CALL_ID, text
from tests.unit.protocols.wolpertinger.test_codec import any_objects

# -- from the peer ----------------------------------------------------------------------------------------------------


def test_a_response_is_a_bare_value() -> None:
    found = event_of(CallResponse("Orders", CALL_ID, Object("int32", 6)), "r1")
    assert (found.kind, found.subject, found.correlation) == (Kind.RESPONSE, "orders.create", CALL_ID)
    assert (found.content_type, found.body, found.message_id) == (JSON, b"6", "")


def test_a_response_without_a_value_has_no_body() -> None:
    found = event_of(CallResponse("Orders", CALL_ID), "r1")
    assert (found.content_type, found.body) == ("", b"")


@pytest.mark.parametrize("answer", [CallResponse("Orders", CALL_ID), RemoteError("Orders", 100, CALL_ID)])
def test_an_answer_that_nobody_asked_for_is_refused(answer: Message) -> None:
    with pytest.raises(Rejected) as raised:
        event_of(answer)
    assert raised.value.reason is Reason.MALFORMED


# -- towards the peer -------------------------------------------------------------------------------------------------


RESPONSES: list[tuple[bytes, Object | None]] = [
    (b"", None),
    (b"null", None),
    (b"6", Object("int32", 6)),
    (b"[6]", Object("list", (Object("int32", 6),))),
]


@pytest.mark.parametrize(("body", "value"), RESPONSES)
def test_a_response_carries_the_value_of_its_body(body: bytes, value: Object | None) -> None:
    assert message_for(event(Kind.RESPONSE, "Orders.create", body)) == CallResponse("Orders", CALL_ID, value)


@pytest.mark.parametrize("content_type", ["", BINARY, JSON, MSGPACK, TEXT])
def test_a_response_without_a_body_has_no_value_whatever_its_type(content_type: str) -> None:
    assert message_for(event(Kind.RESPONSE, "a.b", b"", content_type)) == CallResponse("a", CALL_ID)


@pytest.mark.parametrize("method", ["subscribe", "unsubscribe", "serve", "unserve"])
def test_the_answer_to_a_control_call_is_true(method: str) -> None:
    answer = message_for(event(Kind.RESPONSE, f"mesh.{method}", b'{"ok":true}'))
    assert answer == CallResponse("Mesh", CALL_ID, Object("boolean", True))


def test_the_answer_to_a_ping_is_what_the_mesh_says() -> None:
    answer = message_for(event(Kind.RESPONSE, "mesh.ping", b'{"body":1}'))
    assert answer == CallResponse("Mesh", CALL_ID, text('{"body":1}'))


# -- between two peers of wolpertinger --------------------------------------------------------------------------------


def test_a_response_without_a_value_arrives_without_one() -> None:
    assert message_for(event_of(CallResponse("orders", CALL_ID), "r1")) == CallResponse("orders", CALL_ID)


@settings(deadline=None, max_examples=100)
@given(any_objects)
def test_a_response_arrives_as_it_was_sent(value: Object) -> None:
    answer = message_for(event_of(CallResponse("orders", CALL_ID, value), "r1"))
    assert answer == CallResponse("orders", CALL_ID, value)

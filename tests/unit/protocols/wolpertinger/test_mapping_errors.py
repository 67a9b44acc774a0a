"""A RemoteError to an event and back: its code, the mesh's slug, and what others say in a body."""

from __future__ import annotations

import json

import pytest

from gateway.core.content import JSON, MSGPACK, TEXT, to_msgpack
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError
from gateway.protocols.wolpertinger.codec import decode
from gateway.protocols.wolpertinger.error_codes import CODE_HEADER
from gateway.protocols.wolpertinger.frames import RemoteError, RemoteErrorCode
from tests.unit.protocols.wolpertinger.events import encoded, event, event_of, message_for
from tests.unit.protocols.wolpertinger.talk import CALL_ID

# -- from the peer ----------------------------------------------------------------------------------------------------


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


# -- towards the peer -------------------------------------------------------------------------------------------------


CODES = [
    (MeshError.NO_RESPONDER, RemoteErrorCode.COMPONENT_NOT_FOUND),
    (MeshError.TIMEOUT, RemoteErrorCode.RESPONSE),
    (MeshError.FORBIDDEN, RemoteErrorCode.NOT_AUTHORISED),
    (MeshError.BAD_REQUEST, RemoteErrorCode.INVALID_PARAMETERS),
    (MeshError.INTERNAL, RemoteErrorCode.UNSPECIFIED),
    (MeshError.UNDELIVERABLE, RemoteErrorCode.RESPONSE),
]


@pytest.mark.parametrize(("slug", "code"), CODES)
def test_an_error_of_the_mesh_has_its_code(slug: MeshError, code: RemoteErrorCode) -> None:
    body = json.dumps({"code": slug, "message": ""}).encode()
    for given_error in (event(Kind.ERROR, "a.b", body, mesh_error=slug), event(Kind.ERROR, "a.b", body)):
        out = encoded(given_error)
        assert (decode(out.frame), out.losses) == (RemoteError("a", code, CALL_ID), ())


def test_a_method_that_is_missing_beside_others_is_told_from_a_missing_component() -> None:
    beside = event(Kind.ERROR, "a.b", b"{}", mesh_error="no_responder", served_beside="true")
    assert message_for(beside) == RemoteError("a", RemoteErrorCode.METHOD_NOT_FOUND, CALL_ID)
    other = event(Kind.ERROR, "a.b", b"{}", mesh_error="timeout", served_beside="true")
    assert message_for(other) == RemoteError("a", RemoteErrorCode.RESPONSE, CALL_ID)


def test_a_code_of_wolpertinger_goes_before_all() -> None:
    error = event(Kind.ERROR, "a.b", b"{}", mesh_error="no_responder", wolpertinger_code="303")
    assert message_for(error) == RemoteError("a", 303, CALL_ID)


NUMBERS = [
    (b'{"code":303,"message":"gone"}', JSON, 303),
    (b'{"code":"502"}', JSON, 502),
    (b'{"code":"item_not_found"}', JSON, 502),
    (to_msgpack({"code": 401}), MSGPACK, 401),
]


@pytest.mark.parametrize(("body", "content_type", "code"), NUMBERS)
def test_an_error_keeps_the_number_that_its_body_names(body: bytes, content_type: str, code: int) -> None:
    out = encoded(event(Kind.ERROR, "a.b", body, content_type))
    assert (decode(out.frame), out.losses) == (RemoteError("a", code, CALL_ID), ())


@pytest.mark.parametrize("code", RemoteErrorCode)
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
    event(Kind.ERROR, "a.b", b'{"code":404}'),
    event(Kind.ERROR, "a.b", b'{"code":"-7"}'),
    event(Kind.ERROR, "a.b", b'{"code":2147483648}'),
    event(Kind.ERROR, "a.b", b'{"code":"0x65"}'),
    event(Kind.ERROR, "a.b", b"{"),
    event(Kind.ERROR, "a.b", b"boom", TEXT),
    event(Kind.ERROR, "a.b", b"boom", TEXT, wolpertinger_code="2147483648"),
    event(Kind.ERROR, "a.b", b"boom", TEXT, wolpertinger_code="many"),
    event(Kind.CANCELLED, "a.b", b'{"code":"timeout"}'),
]


@pytest.mark.parametrize("error", NO_NUMBER)
def test_an_error_without_a_number_of_the_schema_is_100_and_loses_its_body(error: Event) -> None:
    out = encoded(error)
    assert (decode(out.frame), out.losses) == (RemoteError("a", RemoteErrorCode.UNSPECIFIED, CALL_ID), ("body",))


def test_an_empty_error_loses_nothing() -> None:
    assert encoded(event(Kind.CANCELLED, "a.b")).losses == ()


# -- between two peers of wolpertinger --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [100, 201, 303, 306, 502, 777, -(1 << 31), (1 << 31) - 1])
def test_an_error_arrives_with_its_own_code(code: int) -> None:
    assert message_for(event_of(RemoteError("orders", code, CALL_ID), "r1")) == RemoteError("orders", code, CALL_ID)

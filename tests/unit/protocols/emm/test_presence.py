"""Hello and heartbeat."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.core.event import Auth, Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import MAX_PACKET_BYTES, EventType, Field, FieldType
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.presence import Capabilities, capabilities, hello_reply
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, BY_HMAC, NODE_ID, packet
from tests.unit.protocols.emm.test_mapping import PEER, encoded
from tests.unit.protocols.emm.vectors import E4, E5, ENV, IDENTITY, OPEN, receive


def hello(body: bytes) -> Event:
    fields = (*codec.split_value(FieldType.BINARY, body), NODE_ID, AUTH_KEY_ID)
    return receive(packet(*fields, event_type=EventType.HELLO, signer=BY_HMAC))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"subscribe": ["a.>", "b"], "serve": ["c"]}', Capabilities(("a.>", "b"), ("c",))),
        (b'{"subscribe": []}', Capabilities()),
        (b'{"serve": ["c"], "model": "x1"}', Capabilities((), ("c",))),
    ],
)
def test_capabilities_may_say_what_a_node_wants(body: bytes, wanted: Capabilities) -> None:
    assert capabilities(body) == wanted
    event = hello(body)
    assert (event.subject, event.body, event.content_type) == ("mesh.emm.hello", body, "application/json")
    assert event.auth is Auth.HMAC


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\1",
        b"\xff",
        b"{",
        b"[]",
        b"{}",
        b'{"model": "x1"}',
        b'{"subscribe": "a"}',
        b'{"subscribe": [1]}',
        b'{"subscribe": ["a"], "serve": null}',
        '{"subscribe": ["a"]}'.encode("utf-16"),
        b"[" * 400,
    ],
)
def test_other_capabilities_are_a_blob(body: bytes) -> None:
    assert capabilities(body) is None
    event = hello(body)
    assert (event.body, event.content_type) == (body, "application/octet-stream")


def test_capabilities_longer_than_a_field_are_one_list() -> None:
    patterns = tuple(f"area.{n}.temp" for n in range(20))
    body = json.dumps({"subscribe": patterns}).encode()
    assert len(body) > 255
    assert capabilities(hello(body).body) == Capabilities(patterns)


def test_hello_and_heartbeat_have_subjects_of_their_own() -> None:
    assert receive(E4, OPEN).subject == "mesh.emm.hello"
    assert receive(E5, OPEN).subject == "mesh.emm.heartbeat"
    assert receive(E5, OPEN).body == b""


def reply(event: Event, subscribed: list[str]) -> Event:
    return receive(hello_reply(event, 90, subscribed, ENV), env=PEER)


def test_the_mesh_answers_with_a_hello_of_its_own() -> None:
    answer = reply(hello(b'{"subscribe": ["a"]}'), ["a"])
    assert (answer.subject, answer.auth) == ("mesh.emm.hello", Auth.HMAC_ED25519)
    assert answer.node.replace("-", "") == IDENTITY.node.hex()
    assert json.loads(answer.body) == {"lease_seconds": 90, "subscribed": ["a"]}


def test_the_answer_to_a_hello_is_always_the_same_packet() -> None:
    asked = hello(b'{"subscribe": ["a"]}')
    assert hello_reply(asked, 90, ["a"], ENV) == hello_reply(replace(asked), 90, ["a"], ENV)
    other = hello_reply(replace(asked, id="0-0-1"), 90, ["a"], ENV)
    assert other[1:5] != hello_reply(asked, 90, ["a"], ENV)[1:5]


def test_the_answer_shares_no_message_id_with_the_event() -> None:
    """One event id may become two packets of the gateway's: they must not pass for repeats of each other."""
    asked = hello(b"\1")
    forwarded = encoded(asked, EmmOptions(forward="resign")).frame
    assert hello_reply(asked, 90, [], ENV)[1:5] != forwarded[1:5]


def test_an_answer_that_would_not_fit_counts_what_it_leaves_out() -> None:
    patterns = [f"area.{n}.temperature" for n in range(60)]
    packet_bytes = hello_reply(hello(b"\1"), 90, patterns, ENV)
    said = json.loads(receive(packet_bytes, env=PEER).body)
    assert 0 < len(said["subscribed"]) < 60
    assert said["subscribed"] == patterns[: len(said["subscribed"])]
    assert said["more"] == 60 - len(said["subscribed"])
    assert MAX_PACKET_BYTES - 30 < len(packet_bytes) <= MAX_PACKET_BYTES


def test_an_answer_needs_an_identity() -> None:
    with pytest.raises(Rejected) as refused:
        hello_reply(hello(b"\1"), 90, ["a"], replace(ENV, identity=None))
    assert refused.value.reason is Reason.UNTRANSLATABLE


def test_whatever_else_a_hello_says_its_first_binary_field_is_the_capabilities() -> None:
    fields = (Field(1, b"roof"), Field(4, b'{"subscribe": ["a"]}'), Field(4, b"more"), NODE_ID, AUTH_KEY_ID)
    event = receive(packet(*fields, event_type=EventType.HELLO, signer=BY_HMAC))
    assert capabilities(event.body) == Capabilities(("a",))

"""Tests what holds between two sessions of every stream protocol: each understands what the other says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from gateway.core.event import Event, Kind
from gateway.core.reasons import Rejected
from gateway.protocols.actions import Outcome
from gateway.protocols.spec import ProtocolSpec
from tests.unit.core.subjects import subjects
from tests.unit.protocols.contract.pair import Pair, said

pieces = pytest.mark.parametrize("piece", [1, 7, 1 << 20])


@pieces
def test_an_event_arrives_as_it_was_sent(spec: ProtocolSpec[Any], piece: int) -> None:
    for talker, listener in (("client", "server"), ("server", "client")):
        pair = Pair(spec, piece=piece)
        getattr(pair, talker).tells(said(Kind.EVENT))
        pair.exchange()
        (heard,) = getattr(pair, listener).heard
        # In a protocol of calls an event is a call that nobody answers.
        assert heard.kind is Kind.EVENT or spec.calls_may_be_events
        assert (heard.subject, json.loads(heard.body)) == ("orders.create", [1])
        (outcome,) = getattr(pair, talker).outcomes
        assert outcome.outcome in (Outcome.WRITTEN, Outcome.CONFIRMED)


@pieces
def test_a_request_is_answered(spec: ProtocolSpec[Any], piece: int) -> None:
    pair = Pair(spec, piece=piece)
    reply = pair.asks(said(Kind.REQUEST))
    (asked,) = pair.server.heard
    assert (asked.kind, asked.subject, json.loads(asked.body)) == (Kind.REQUEST, "orders.create", [1])
    pair.server.tells(said(Kind.RESPONSE, b"6"), asked.message_id)
    pair.exchange()
    (answer,) = pair.client.heard
    assert (answer.kind, answer.subject, json.loads(answer.body)) == (Kind.RESPONSE, "orders.create", 6)
    assert reply.request == "r1-1-0"


@pytest.mark.parametrize("kind", [Kind.ERROR, Kind.CANCELLED])
def test_a_request_that_fails_is_told_so(spec: ProtocolSpec[Any], kind: Kind) -> None:
    pair = Pair(spec)
    pair.asks(said(Kind.REQUEST))
    body = b'{"code":"no_responder","message":"nobody serves this"}' if kind is Kind.ERROR else b""
    pair.server.tells(said(kind, body), pair.server.heard[0].message_id)
    pair.exchange()
    (answer,) = pair.client.heard
    assert answer.kind in (kind, Kind.ERROR)


def test_answers_find_their_requests_in_any_order(spec: ProtocolSpec[Any]) -> None:
    pair = Pair(spec)
    for number in range(5):
        pair.asks(said(Kind.REQUEST, b"[%d]" % number, number=number))
    for asked in reversed(pair.server.heard):
        (number,) = json.loads(asked.body)
        pair.server.tells(said(Kind.RESPONSE, b"%d" % number, number=number), asked.message_id)
    pair.exchange()
    assert [json.loads(answer.body) for answer in pair.client.heard] == [4, 3, 2, 1, 0]
    assert len({answer.correlation for answer in pair.client.heard}) == 5


@pytest.mark.parametrize("kind", [Kind.PROGRESS, Kind.CANCEL])
def test_what_cannot_be_said_is_lost_by_name_and_what_can_arrives(spec: ProtocolSpec[Any], kind: Kind) -> None:
    pair = Pair(spec)
    reply = pair.asks(said(Kind.REQUEST))
    (asked,) = pair.server.heard
    if kind is Kind.PROGRESS:
        encoded, hearer = pair.server.tells(said(kind, b"50"), asked.message_id), pair.client
    else:
        encoded, hearer = pair.client.tells(said(kind, b""), reply=reply), pair.server
    pair.exchange()
    if encoded.frame:
        assert hearer.heard[-1].kind is kind
        assert kind is Kind.PROGRESS or hearer.heard[-1].correlation == asked.message_id
    else:
        assert encoded.losses
        assert not any(event.kind is kind for event in hearer.heard)
    assert not pair.client.session.closed
    assert not pair.server.session.closed


def test_an_answer_that_nobody_waits_for_is_not_written(spec: ProtocolSpec[Any]) -> None:
    pair = Pair(spec)
    pair.asks(said(Kind.REQUEST))
    (asked,) = pair.server.heard
    pair.server.tells(said(Kind.RESPONSE, b"6", number=1), asked.message_id)
    pair.exchange()
    pair.server.tells(said(Kind.RESPONSE, b"7", number=2), asked.message_id)
    pair.exchange()
    outcomes = {outcome.delivery.event_id: outcome.outcome for outcome in pair.server.outcomes}
    assert outcomes["1-1-2"] is Outcome.EXPIRED
    assert len(pair.client.heard) == 1


@given(
    kind=st.sampled_from(Kind),
    subject=subjects(20),
    body=st.binary(max_size=40),
    content_type=st.sampled_from(["", "application/json", "application/msgpack", "text/plain", "image/png"]),
)
@profile(max_examples=150, deadline=None)
def test_any_event_has_a_frame_or_is_refused_and_the_peer_can_read_it(
    spec: ProtocolSpec[Any], kind: Kind, subject: str, body: bytes, content_type: str
) -> None:
    pair = Pair(spec)
    reply = pair.asks(said(Kind.REQUEST))
    request = pair.server.heard[0].message_id
    event = Event("1-1-9", kind, subject, "mesh", "", "", "", "", "", 5, body=body, content_type=content_type)
    try:
        if kind.answers:
            pair.server.tells(event, request)
        else:
            pair.client.tells(event, reply=reply if kind in (Kind.REQUEST, Kind.CANCEL) else None)
    except Rejected:
        return
    pair.exchange()
    assert not pair.client.session.closed
    assert not pair.server.session.closed

"""Tests the options of an hsp listener."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.core.event import Kind
from gateway.protocols.hsp.options import HspOptions


def options(**keys: Any) -> HspOptions:
    return HspOptions.model_validate(keys)


def test_a_type_is_named_by_its_mapping_and_else_by_its_number() -> None:
    mapped = options(types={17: "temp.high", 18: {"subject": "orders/create", "content_type": "application/json"}})
    assert (mapped.subject_of(17), mapped.content_type_of(17)) == ("temp.high", "application/octet-stream")
    assert (mapped.subject_of(18), mapped.content_type_of(18)) == ("orders/create", "application/json")
    assert (mapped.subject_of(19), mapped.content_type_of(19)) == ("hsp.19", "application/octet-stream")


@pytest.mark.parametrize(
    ("subject", "type_"),
    [
        ("temp.high", 17),
        ("temp/high", 17),
        ("orders.create", 18),
        ("twice", 3),
        ("hsp.0", 0),
        ("hsp.65534", 65534),
        ("hsp.17", None),
        ("hsp.65535", None),
        ("hsp.65536", None),
        ("hsp.99999", None),
        ("hsp.017", None),
        ("hsp.1.2", None),
        ("hsp.", None),
        ("temp.low", None),
    ],
)
def test_a_subject_finds_its_type(subject: str, type_: int | None) -> None:
    mapped = options(types={17: "temp.high", 18: {"subject": "orders/create"}, 4: "twice", 3: "twice"})
    assert mapped.type_for(subject) == type_


@pytest.mark.parametrize(("events", "requests"), [(17, 18), (18, 17)])
def test_one_subject_may_have_a_type_for_events_and_one_for_requests(events: int, requests: int) -> None:
    asking = {"subject": "orders.create", "kind": "request", "reply_type": 19}
    mapped = options(types={events: "orders.create", requests: asking})
    assert mapped.type_for("orders.create", Kind.EVENT) == events
    assert mapped.type_for("orders.create", Kind.REQUEST) == requests
    assert mapped.reply_type_for("orders/create") == 19


def test_a_type_of_the_other_kind_is_better_than_none() -> None:
    mapped = options(types={17: {"subject": "orders.create", "kind": "request"}, 18: "temp.high"})
    assert (mapped.type_for("orders.create", Kind.EVENT), mapped.type_for("temp.high", Kind.REQUEST)) == (17, 18)


@pytest.mark.parametrize(
    ("ack", "kind", "said"),
    [
        ("durable", None, Kind.EVENT),
        ("durable", "request", Kind.REQUEST),
        ("answered", None, Kind.REQUEST),
        ("answered", "event", Kind.EVENT),
        ("delivered", None, Kind.EVENT),
    ],
)
def test_a_data_ack_is_what_its_type_says_and_else_what_ack_makes_of_it(ack: str, kind: str | None, said: Kind) -> None:
    mapped = options(ack=ack, types={17: {"subject": "temp.high", "kind": kind}})
    assert mapped.kind_of(17) is said


@pytest.mark.parametrize(
    "keys",
    [
        {"types": {65535: "temp.high"}},
        {"types": {70000: "temp.high"}},
        {"types": {-1: "temp.high"}},
        {"types": {17: ""}},
        {"types": {17: "temp..high"}},
        {"types": {17: "temp.*"}},
        {"types": {17: ["temp.high"]}},
        {"types": {17: {"subject": "a", "kind": "response"}}},
        {"types": {17: {"subject": "a", "reply_type": 65535}}},
        {"types": {17: {"subject": "a", "replytype": 1}}},
        {"ack": "never"},
        {"error_type": 65536},
        {"ping_seconds": 0},
        {"dedup": "payload", "ack": "delivered"},
        {"typs": {}},
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        options(**keys)

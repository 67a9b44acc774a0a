"""Events for tests: one with something in every field, and one with nothing that it could do without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.core.event import Auth, Event, Kind

FULL = Event(
    id="0-1-2",
    kind=Kind.REQUEST,
    subject="a.b",
    protocol="emm",
    listener="devices",
    edge="edge-0",
    session="edge-0.1.7",
    peer="10.0.0.1:9",
    node="6f1c2b1a-0000-4000-8000-000000000001",
    received_at=1_759_190_400_000_001,
    message_id="0000002a",
    correlation="c",
    content_type="application/json",
    body=b'{"celsius": 21.50, "at": "cellar \xc2\xb0"}',
    headers={"rule": "x", "": "y"},
    urgent=True,
    sent_at=1_759_190_399_000_000,
    auth=Auth.HMAC,
    key_id="00000001",
)
_BARE = Event("0-0-0", Kind.EVENT, "a.b", "emp", "", "", "", "", "", 1)


def full_event(**fields: Any) -> Event:
    """Returns an event with something in every field."""
    return replace(FULL, **fields)


def bare_event(**fields: Any) -> Event:
    """Returns an event of which nothing is known but what is given."""
    return replace(_BARE, **fields)

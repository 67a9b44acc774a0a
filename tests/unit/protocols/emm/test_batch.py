"""Two decoders, one truth: whatever a packet is, a container of it says what the plain path says."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.emm.batch import to_events
from gateway.protocols.emm.mapping import to_event
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.spec import CodecContext
from gateway.records.raw_log.frames import RawFrame
from tests.unit.protocols.emm.mutations import (
    EXPIRED_KEY_ID,
    HMAC_KEY_ID,
    OTHER_SECRET,
    OTHER_SEED,
    SIGNATURE_KEY_ID,
    nearly_right,
)
from tests.unit.protocols.emm.vectors import E1, E4, ENV, KEY, KEY_ID, NODE, RECEIVED_AT, SECRET, SEED, SOURCE

PACKETS_PER_CONTAINER = 200
NIGHTLY = settings.get_current_profile_name() == "nightly"
CONTAINERS = 20_000 if NIGHTLY else 60
"""A third of them are full: over a million packets at night, some thousands in every run."""
NIGHT_SECONDS = 3_600

MANY_KEYS = KeyRing(
    {
        NODE: {
            KEY_ID: replace(KEY, default=True),
            EXPIRED_KEY_ID: Key(EXPIRED_KEY_ID, SECRET, public_of(SEED), not_after=RECEIVED_AT),
            HMAC_KEY_ID: Key(HMAC_KEY_ID, hmac=OTHER_SECRET, default=True),
            SIGNATURE_KEY_ID: Key(SIGNATURE_KEY_ID, ed25519=public_of(OTHER_SEED)),
        }
    }
)
OPTIONS = {
    "strict": EmmOptions(),
    "open": EmmOptions(unauthenticated="accept", reserved_flags="ignore", public_key="any", freshness="off"),
    "presence": EmmOptions(accept_presence=True, freshness="timestamp_only", encryption="open"),
}


def outcome(event: Event | Rejected) -> tuple[object, ...]:
    if isinstance(event, Rejected):
        return event.reason, event.detail
    return tuple(getattr(event, item.name) for item in fields(Event))


def plain(raw: RawFrame, event_id: str, env: CodecContext) -> Event | Rejected:
    try:
        return to_event(raw, event_id, OPTIONS[raw.source.listener], env)
    except Rejected as refused:
        return refused


def container(random: Random, size: int) -> list[RawFrame]:
    sources = [replace(SOURCE, listener=name) for name in OPTIONS]
    times = (RECEIVED_AT, RECEIVED_AT - 1, RECEIVED_AT + 400_000_000)
    return [
        RawFrame(nearly_right(random), random.choice(sources), random.choices(times, (20, 1, 1))[0])
        for _ in range(size)
    ]


@pytest.mark.timeout(NIGHT_SECONDS if NIGHTLY else 60)
@settings(max_examples=CONTAINERS, deadline=None)
@given(st.integers(0, 2**64), st.sampled_from([1, 10, PACKETS_PER_CONTAINER]))
def test_a_container_says_of_each_packet_what_the_plain_path_says(seed: int, size: int) -> None:
    env = replace(ENV, keys=MANY_KEYS)
    raws = container(Random(seed), size)
    ids = [f"0-0-{index}" for index in range(size)]
    found = to_events(raws, ids, OPTIONS, env)
    for raw, event_id, event in zip(raws, ids, found, strict=True):
        assert outcome(event) == outcome(plain(raw, event_id, env)), raw.data.hex()


def test_no_packets_are_no_events() -> None:
    assert to_events([], [], OPTIONS, ENV) == []


def test_a_listener_that_is_gone_leaves_the_defaults() -> None:
    raws = [RawFrame(packet, SOURCE, RECEIVED_AT) for packet in (E1, E4)]
    accepted, refused = to_events(raws, ["0-0-0", "0-0-1"], {}, ENV)
    assert isinstance(accepted, Event)
    assert isinstance(refused, Rejected)
    assert refused.reason is Reason.UNAUTHENTICATED

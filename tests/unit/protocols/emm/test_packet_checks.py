"""The verdict: whose key, which policy, how old; and in which order these are asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.auth.keyring import Key, KeyRing
from gateway.auth.verification import public_of
from gateway.core.event import Auth, Event
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U64
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType, Field, FieldType, Flag
from gateway.protocols.emm.options import EmmOptions
from gateway.protocols.emm.signing import Signer
from gateway.protocols.spec import CodecContext
from tests.unit.protocols.emm.packets import AUTH_KEY_ID, NAME, NODE_ID, event, packet
from tests.unit.protocols.emm.vectors import (
    E1,
    E2,
    E3,
    E4,
    E5,
    ENV,
    KEY,
    KEY_ID,
    MESSAGE_ID,
    NODE,
    OPEN,
    RECEIVED_AT,
    SECRET,
    SEED,
    STRICT,
    TIMESTAMP,
    receive,
)

OTHER_ID = bytes.fromhex("00000002")
OTHER_SEED = b"o" * 32
FOREIGN = Signer(NODE, None, None, OTHER_SEED, announce=True)


def ring(*keys: Key) -> CodecContext:
    return CodecContext(KeyRing({NODE: {key.key_id: key for key in keys}}))


def signed(signer: Signer, *fields: Field) -> bytes:
    return codec.encode(codec.Draft(MESSAGE_ID, TIMESTAMP, (NAME, *fields)), signer)


def why(data: bytes, options: EmmOptions = STRICT, env: CodecContext = ENV, **how: Any) -> Reason:
    with pytest.raises(Rejected) as refused:
        receive(data, options, env, **how)
    return refused.value.reason


def proof(found: Event) -> tuple[Auth, str]:
    return found.auth, found.key_id


# -- keys ----------------------------------------------------------------------------------------------------------


def test_hmac_and_signature_by_the_key_that_is_named() -> None:
    assert proof(receive(E1)) == (Auth.HMAC, "00000001")
    assert proof(receive(E2)) == (Auth.ED25519, "00000001")
    assert proof(receive(E3)) == (Auth.HMAC_ED25519, "00000001")


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        pytest.param(CodecContext(KeyRing()), Reason.UNKNOWN_KEY, id="the node is unknown"),
        pytest.param(ring(replace(KEY, key_id=OTHER_ID)), Reason.UNKNOWN_KEY, id="the node has no such key"),
        pytest.param(ring(replace(KEY, hmac=None)), Reason.UNKNOWN_KEY, id="the key is for signatures alone"),
        pytest.param(ring(replace(KEY, hmac=b"another secret")), Reason.BAD_HMAC, id="the secret is another"),
        pytest.param(ring(replace(KEY, not_after=RECEIVED_AT)), Reason.EXPIRED_KEY, id="the key is over"),
        pytest.param(ring(replace(KEY, not_before=RECEIVED_AT + 1)), Reason.EXPIRED_KEY, id="the key is not yet"),
    ],
)
def test_an_hmac_that_does_not_hold_is_refused(env: CodecContext, reason: Reason) -> None:
    assert why(E1, env=env) is reason


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        pytest.param(CodecContext(KeyRing()), Reason.UNKNOWN_KEY, id="the node is unknown"),
        pytest.param(ring(replace(KEY, ed25519=None)), Reason.UNKNOWN_KEY, id="the key is for HMAC alone"),
        pytest.param(ring(replace(KEY, ed25519=public_of(OTHER_SEED))), Reason.BAD_SIGNATURE, id="another key"),
        pytest.param(ring(replace(KEY, not_after=RECEIVED_AT)), Reason.EXPIRED_KEY, id="the key is over"),
    ],
)
def test_a_signature_that_does_not_hold_is_refused(env: CodecContext, reason: Reason) -> None:
    assert why(signed(Signer(NODE, KEY_ID, None, SEED)), env=env) is reason


def test_hmac_is_verified_before_the_signature() -> None:
    wrong_both = signed(Signer(NODE, KEY_ID, b"wrong", OTHER_SEED))
    wrong_signature = signed(Signer(NODE, KEY_ID, SECRET, OTHER_SEED))
    assert why(wrong_both) is Reason.BAD_HMAC
    assert why(wrong_signature) is Reason.BAD_SIGNATURE


def test_without_a_key_id_the_nodes_default_key_is_meant() -> None:
    default = ring(replace(KEY, default=True), Key(OTHER_ID, hmac=b"other"))
    assert proof(receive(signed(Signer(NODE, None, SECRET)), env=default)) == (Auth.HMAC, "00000001")
    assert proof(receive(signed(Signer(NODE, None, None, SEED)), env=default)) == (Auth.ED25519, "00000001")
    assert why(signed(Signer(NODE, None, SECRET))) is Reason.UNKNOWN_KEY
    assert why(signed(Signer(NODE, None, None, SEED))) is Reason.UNKNOWN_KEY


def test_during_a_rotation_both_default_keys_hold() -> None:
    old = replace(KEY, default=True, not_after=RECEIVED_AT + 1)
    new = Key(OTHER_ID, hmac=b"new secret", ed25519=public_of(OTHER_SEED), default=True)
    both = ring(old, new)
    assert receive(signed(Signer(NODE, None, SECRET)), env=both).key_id == "00000001"
    assert receive(signed(Signer(NODE, None, b"new secret")), env=both).key_id == "00000002"
    assert receive(signed(Signer(NODE, None, None, OTHER_SEED)), env=both).key_id == "00000002"
    assert why(signed(Signer(NODE, None, SECRET)), env=both, received_at=RECEIVED_AT + 1) is Reason.BAD_HMAC
    assert why(signed(Signer(NODE, None, b"neither")), env=both) is Reason.BAD_HMAC


def test_a_public_key_in_the_packet_must_be_one_of_the_nodes() -> None:
    theirs = Signer(NODE, None, None, SEED, announce=True)
    assert proof(receive(signed(theirs))) == (Auth.ED25519, "00000001")
    assert why(signed(FOREIGN)) is Reason.UNTRUSTED_KEY
    assert why(signed(theirs), env=CodecContext(KeyRing())) is Reason.UNTRUSTED_KEY


def test_any_public_key_will_do_where_the_listener_says_so() -> None:
    anyones = EmmOptions(public_key="any")
    found = receive(signed(FOREIGN), anyones)
    assert proof(found) == (Auth.ED25519, "")
    assert found.headers["emm-public-key"] == public_of(OTHER_SEED).hex()
    flipped = bytearray(signed(FOREIGN))
    flipped[-1] ^= 1
    assert why(bytes(flipped), anyones) is Reason.BAD_SIGNATURE


def test_a_public_key_takes_precedence_over_a_key_id() -> None:
    other = Key(OTHER_ID, hmac=b"x" * 16, ed25519=public_of(OTHER_SEED))
    named_otherwise = signed(Signer(NODE, OTHER_ID, None, SEED, announce=True))
    assert proof(receive(named_otherwise, env=ring(KEY, other))) == (Auth.ED25519, "00000001")


def test_the_hmac_still_needs_the_key_that_is_named() -> None:
    both = signed(Signer(NODE, KEY_ID, SECRET, OTHER_SEED, announce=True))
    other = Key(OTHER_ID, ed25519=public_of(OTHER_SEED))
    assert proof(receive(both, env=ring(KEY, other))) == (Auth.HMAC_ED25519, "00000001")
    assert why(both, env=ring(other)) is Reason.UNKNOWN_KEY


def test_a_pinned_key_that_is_over_is_expired_unless_another_entry_holds() -> None:
    over = replace(KEY, not_after=RECEIVED_AT)
    again = Key(OTHER_ID, ed25519=KEY.ed25519)
    assert why(E2, env=ring(over)) is Reason.EXPIRED_KEY
    assert proof(receive(E2, env=ring(over, again))) == (Auth.ED25519, "00000002")


def test_a_key_of_another_node_is_none_of_this_node() -> None:
    env = CodecContext(KeyRing({bytes(16): {KEY_ID: KEY}}))
    assert why(E1, env=env) is Reason.UNKNOWN_KEY
    assert why(E2, env=env) is Reason.UNTRUSTED_KEY


def test_a_key_is_judged_at_the_time_of_receipt() -> None:
    """The same packet, received just before the key's end and at it, decides so whenever it is decoded."""
    ending = ring(replace(KEY, not_after=RECEIVED_AT + 1))
    assert proof(receive(E1, env=ending, received_at=RECEIVED_AT)) == (Auth.HMAC, "00000001")
    assert why(E1, env=ending, received_at=RECEIVED_AT + 1) is Reason.EXPIRED_KEY


# -- policies ------------------------------------------------------------------------------------------------------

PLAIN = packet(NAME, NODE_ID)


@pytest.mark.parametrize(
    ("data", "options", "accepted"),
    [
        pytest.param(PLAIN, EmmOptions(), False, id="event, by default"),
        pytest.param(E4, EmmOptions(), False, id="hello, by default"),
        pytest.param(E5, EmmOptions(), False, id="heartbeat, by default"),
        pytest.param(PLAIN, EmmOptions(accept_presence=True), False, id="event, presence alone"),
        pytest.param(E4, EmmOptions(accept_presence=True), True, id="hello, presence alone"),
        pytest.param(E5, EmmOptions(accept_presence=True), True, id="heartbeat, presence alone"),
        pytest.param(packet(NAME), EmmOptions(accept_presence=True), False, id="an event without a node"),
        pytest.param(PLAIN, OPEN, True, id="event, all accepted"),
        pytest.param(packet(NAME), OPEN, True, id="an event without a node, all accepted"),
    ],
)
def test_without_tags_the_listener_decides(data: bytes, options: EmmOptions, accepted: bool) -> None:
    if accepted:
        assert proof(receive(data, options)) == (Auth.NONE, "")
    else:
        assert why(data, options) is Reason.UNAUTHENTICATED


def test_a_wrong_tag_is_refused_even_where_none_is_needed() -> None:
    assert why(signed(Signer(NODE, KEY_ID, b"wrong")), OPEN) is Reason.BAD_HMAC
    assert why(signed(Signer(NODE, OTHER_ID, SECRET)), OPEN) is Reason.UNKNOWN_KEY


def test_the_defaults_are_the_strict_ones() -> None:
    assert EmmOptions().model_dump() == {
        "reserved_flags": "reject",
        "unauthenticated": "reject",
        "accept_presence": False,
        "public_key": "pinned",
        "freshness": "required",
        "encryption": "pass",
        "forward": "verbatim",
        "lease_seconds": 90,
        "uncompressed_bytes": 65_536,
    }


# -- freshness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "reason"),
    [(-121, Reason.FUTURE), (-120, None), (0, None), (300, None), (301, Reason.STALE), (-(2**62), Reason.FUTURE)],
)
@pytest.mark.parametrize("microseconds", [0, 999_999])
def test_a_packet_is_fresh_within_the_window_and_the_skew(age: int, reason: Reason | None, microseconds: int) -> None:
    data = event(timestamp=TIMESTAMP - age)
    received_at = RECEIVED_AT + microseconds
    if reason is None:
        assert receive(data, received_at=received_at).subject == "temp.high"
    else:
        assert why(data, received_at=received_at) is reason


def test_window_and_skew_are_the_meshs() -> None:
    env = replace(ENV, replay_window_seconds=10, clock_skew_seconds=5)
    assert receive(event(timestamp=TIMESTAMP - 10), env=env).subject == "temp.high"
    assert why(event(timestamp=TIMESTAMP - 11), env=env) is Reason.STALE
    assert why(event(timestamp=TIMESTAMP + 6), env=env) is Reason.FUTURE


def stamped(signed_at: int, created_at: int) -> bytes:
    return packet(
        NAME,
        NODE_ID,
        Field(FieldType.TIMESTAMP, U64.pack(signed_at)),
        AUTH_KEY_ID,
        timestamp=created_at,
        signer=Signer(NODE, KEY_ID, SECRET),
    )


def test_the_time_of_signing_goes_before_that_of_the_header() -> None:
    assert receive(stamped(TIMESTAMP, TIMESTAMP - 10_000)).sent_at == (TIMESTAMP - 10_000) * 1_000_000
    assert why(stamped(TIMESTAMP - 301, TIMESTAMP)) is Reason.STALE
    assert why(stamped(TIMESTAMP + 121, TIMESTAMP)) is Reason.FUTURE


def test_timestamp_only_judges_packets_that_carry_one() -> None:
    options = EmmOptions(freshness="timestamp_only")
    assert receive(event(timestamp=0), options).sent_at == 0
    assert why(stamped(TIMESTAMP - 301, TIMESTAMP), options) is Reason.STALE


def test_freshness_may_be_off() -> None:
    options = EmmOptions(freshness="off")
    assert receive(event(timestamp=0), options).sent_at == 0
    assert receive(stamped(0, 0), options).sent_at == 0


@pytest.mark.parametrize(
    ("timestamp", "sent_at"),
    [(9_223_372_036_854, 9_223_372_036_854_000_000), (9_223_372_036_855, None), (2**64 - 1, None)],
)
def test_a_time_that_no_column_can_hold_is_no_time(timestamp: int, sent_at: int | None) -> None:
    assert receive(event(timestamp=timestamp), EmmOptions(freshness="off")).sent_at == sent_at


# -- order ---------------------------------------------------------------------------------------------------------


def test_the_checks_come_in_the_order_of_the_text() -> None:
    """One packet with everything wrong with it, mended one fault at a time."""

    def broken(*, fields: bytes = b"", secret: bytes = SECRET, seed: bytes = SEED, age: int = 0) -> bytes:
        extra = (Field(FieldType.JSON, fields),) if fields else ()
        signer = Signer(NODE, KEY_ID, secret, seed)
        return packet(NAME, *extra, NODE_ID, AUTH_KEY_ID, timestamp=TIMESTAMP - age, signer=signer)

    assert why(broken(fields=b"{", secret=b"x", seed=OTHER_SEED, age=999)[:-1]) is Reason.TRUNCATED
    assert why(broken(fields=b"{", secret=b"x", seed=OTHER_SEED, age=999)) is Reason.BAD_ENCODING
    assert why(broken(secret=b"x", seed=OTHER_SEED, age=999)) is Reason.BAD_HMAC
    assert why(broken(seed=OTHER_SEED, age=999)) is Reason.BAD_SIGNATURE
    assert why(broken(age=999)) is Reason.STALE
    assert receive(broken()).subject == "temp.high"


def test_a_hello_is_judged_like_any_packet() -> None:
    fields = (Field(FieldType.BINARY, b"{}"), NODE_ID, AUTH_KEY_ID)
    signer = Signer(NODE, KEY_ID, SECRET)
    hello = packet(*fields, event_type=EventType.HELLO, signer=signer)
    assert proof(receive(hello)) == (Auth.HMAC, "00000001")
    assert why(packet(*fields, event_type=EventType.HELLO, signer=replace(signer, hmac=b"x"))) is Reason.BAD_HMAC
    assert why(packet(*fields, event_type=EventType.HELLO, timestamp=0, signer=signer)) is Reason.STALE
    assert why(packet(*fields, event_type=EventType.HELLO, flags=Flag.ENCRYPTED, signer=signer)) is Reason.MISSING_FIELD

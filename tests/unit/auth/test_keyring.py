"""Keys as the stream looks them up."""

from __future__ import annotations

import pytest

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing, trusting, usable_at
from gateway.auth.verification import public_of
from gateway.core.reasons import Reason, Rejected

NODE, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"
ONE, TWO, THREE = (Key(bytes(3) + bytes([n]), hmac=b"secret", default=n < 3) for n in (1, 2, 3))
RING = KeyRing({NODE: {key.key_id: key for key in (ONE, TWO, THREE)}, OTHER: {ONE.key_id: ONE}})


def test_a_key_is_found_by_its_node_and_id() -> None:
    assert RING.named(NODE, THREE.key_id) == (THREE,)
    assert RING.named(OTHER, THREE.key_id) == ()
    assert RING.named(bytes(16), THREE.key_id) == ()


def test_without_an_id_all_default_keys_are_meant() -> None:
    assert RING.named(NODE, None) == (ONE, TWO)
    assert RING.named(bytes(16), None) == ()


def test_a_key_is_found_by_its_public_half_within_its_node() -> None:
    key = Key(bytes(4), ed25519=b"p" * 32)
    ring = KeyRing({NODE: {key.key_id: key, ONE.key_id: ONE}})
    assert ring.holding(NODE, b"p" * 32) == (key,)
    assert ring.holding(OTHER, b"p" * 32) == ()


def test_a_key_identifier_is_a_key_id_filled_up_with_zeros_or_a_node() -> None:
    assert RING.for_encryption(NODE, None) == (ONE, TWO)
    assert RING.for_encryption(NODE, bytes(12) + THREE.key_id) == (THREE,)
    assert RING.for_encryption(bytes(16), OTHER) == (ONE,)
    assert RING.for_encryption(NODE, b"x" * 16) == ()


@pytest.mark.parametrize(("at", "holds"), [(9, False), (10, True), (19, True), (20, False)])
def test_a_key_holds_from_its_beginning_until_its_end(at: int, holds: bool) -> None:
    assert Key(bytes(4), not_before=10, not_after=20).valid_at(at) is holds


def test_of_several_keys_those_that_hold_are_usable() -> None:
    old, new = Key(bytes(4), not_after=10), Key(bytes(4), not_before=5)
    assert usable_at(7, [old, new]) == [old, new]
    assert usable_at(10, [old, new]) == [new]


@pytest.mark.parametrize(
    ("keys", "reason"), [([], Reason.UNKNOWN_KEY), ([Key(bytes(4), not_after=1)], Reason.EXPIRED_KEY)]
)
def test_no_usable_key_is_a_reason_to_refuse(keys: list[Key], reason: Reason) -> None:
    with pytest.raises(Rejected) as refused:
        usable_at(1, keys)
    assert refused.value.reason is reason


def test_the_gateways_own_keys_are_among_those_believed() -> None:
    identity = GatewayIdentity(bytes(16), bytes(4), b"e" * 32)
    ring = trusting(RING, identity)
    assert [key.ed25519 for key in ring.named(identity.node, None)] == [public_of(b"e" * 32)]
    assert ring.named(NODE, None) == RING.named(NODE, None)
    assert trusting(RING, None) is RING


def test_no_secret_is_shown() -> None:
    shown = f"{Key(bytes(4), hmac=b'hmac secret', encryption=b'encryption secret')!r}"
    shown += f"{GatewayIdentity(NODE, bytes(4), b'private secret', b'hmac secret')!r}"
    assert "secret" not in shown

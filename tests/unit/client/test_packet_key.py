"""The ways to name a key."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from gateway.auth import key_admin
from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from gateway.auth.verification import public_of
from gateway.client.packet_key import KeyNotFoundError, PacketKey, find_key
from gateway.protocols.emm.signing import Signer

NODE = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
KEY_ID = bytes.fromhex("00000001")
SECRET, SEED, ENCRYPTION = b"s" * 32, b"e" * 32, b"c" * 32
KEYS = KeyRing({NODE.bytes: {KEY_ID: Key(KEY_ID, SECRET, public_of(SEED), ENCRYPTION, default=True)}})
IDENTITY = GatewayIdentity(bytes(16), bytes.fromhex("000000ff"), SEED)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"node": str(NODE), "key_id": "00000001", "secrets": {"hmac": SECRET.hex(), "ed25519": SEED.hex()}}),
        f"{{node: {NODE}, key_id: 00000001, hmac: {SECRET.hex()}, ed25519_private: {SEED.hex()}}}",
        f"gateway:\n  node: {NODE}\n  key_id: '00000001'\n  hmac: {SECRET.hex()}\n  ed25519_private: {SEED.hex()}\n",
    ],
)
def test_a_key_may_be_written_as_the_mesh_writes_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text)
    assert find_key(str(tmp_path / "key")) == PacketKey(Signer(NODE.bytes, KEY_ID, SECRET, SEED))


def test_it_may_be_what_keys_new_shows(tmp_path: Path) -> None:
    made = key_admin.new_key(tmp_path / "keys.yaml", str(NODE), kinds=key_admin.KINDS)
    shown = json.dumps({"node": made.node, "key_id": made.key_id, "secrets": dict(made.secrets)})
    found = find_key(shown)
    assert (found.signer.node, found.signer.key_id) == (NODE.bytes, KEY_ID)
    assert public_of(found.signer.ed25519_private or b"").hex() == made.public
    assert (found.encryption or b"").hex() == made.secrets["encryption"]


@pytest.mark.parametrize("text", [str(NODE), f"{NODE}/00000001"])
def test_of_the_trust_stores_keys_it_has_all_but_the_private_half(text: str) -> None:
    assert find_key(text, KEYS) == PacketKey(Signer(NODE.bytes, KEY_ID, SECRET), ENCRYPTION)


@pytest.mark.parametrize(
    ("secret", "signer"),
    [(SECRET, Signer(NODE.bytes, KEY_ID, SECRET)), (SEED, Signer(NODE.bytes, KEY_ID, ed25519_private=SEED))],
)
def test_whose_a_bare_secret_is_the_trust_store_knows(secret: bytes, signer: Signer) -> None:
    assert find_key(secret.hex(), KEYS) == PacketKey(signer, ENCRYPTION)


def test_the_gateways_own_goes_by_its_name() -> None:
    assert find_key("gateway", KEYS, IDENTITY) == PacketKey(Signer(IDENTITY.node, IDENTITY.key_id, None, SEED))


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("gateway", KEYS),
        (str(NODE), None),
        ("no/such/file", None),
        ("no/such/file", KEYS),
        (f"{NODE}/00000002", KEYS),
        (str(UUID(int=7)), KEYS),
        ((b"x" * 32).hex(), KEYS),
        ("{}", KEYS),
        ("{node: x, key_id: 00000001}", KEYS),
        (f"{{node: {NODE}, key_id: 01, hmac: 00}}", KEYS),
        (f"{{node: {NODE}, ed25519: 00}}", KEYS),
        ("{{", KEYS),
    ],
)
def test_what_is_no_key_is_refused_without_being_repeated(text: str, keys: KeyRing | None) -> None:
    with pytest.raises(KeyNotFoundError) as refused:
        find_key(text, keys)
    assert text not in str(refused.value) or text == "gateway"

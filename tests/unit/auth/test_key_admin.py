"""Changing the trust store's file."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.auth import key_admin, trust_file
from gateway.auth.key_admin import KeyAdminError
from gateway.auth.keyring import Key
from gateway.auth.verification import public_of
from gateway.core.yaml_files.faults import ConfigError

NODE = "00112233-4455-6677-8899-aabbccddeeff"
NODE_ID = bytes.fromhex(NODE.replace("-", ""))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def key(path: Path, key_id: str) -> Key:
    return trust_file.load(path).keys.nodes[NODE_ID][bytes.fromhex(key_id)]


def holds(path: Path, key_id: str, at: datetime) -> bool:
    return key(path, key_id).valid_at(trust_file.microseconds(at))


def test_a_new_key_of_each_kind_is_kept_and_given_out(path: Path) -> None:
    made = key_admin.new_key(path, NODE, kinds=key_admin.KINDS)
    kept = key(path, made.key_id)
    assert made.key_id == "00000001"
    assert kept.hmac == bytes.fromhex(made.secrets["hmac"])
    assert kept.encryption == bytes.fromhex(made.secrets["encryption"])
    assert kept.ed25519 == public_of(bytes.fromhex(made.secrets["ed25519"])) == bytes.fromhex(made.public or "")


def test_the_private_half_is_not_kept(path: Path) -> None:
    made = key_admin.new_key(path, NODE, kinds=["ed25519"])
    assert made.secrets["ed25519"] not in path.read_text()


def test_a_public_key_made_elsewhere_is_taken_over(path: Path) -> None:
    public = public_of(b"s" * 32).hex()
    made = key_admin.new_key(path, NODE, kinds=["ed25519"], public=public)
    assert (made.public, dict(made.secrets)) == (public, {})
    assert key(path, made.key_id).ed25519 == bytes.fromhex(public)


def test_what_is_no_public_key_changes_nothing(path: Path) -> None:
    with pytest.raises(ConfigError) as faulty:
        key_admin.new_key(path, NODE, kinds=["ed25519"], public="01" + "00" * 31)
    assert "Ed25519 public key" in str(faulty.value)
    assert not path.exists()


def test_the_file_is_its_owners_alone(path: Path) -> None:
    key_admin.new_key(path, NODE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_access_comments_references_and_links_stay(path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("5e" * 32)
    target = tmp_path / "real.yaml"
    key = '"00000001": {hmac: "${file:secret}"}'
    target.write_text(f"# ours\n\nnodes: {{{NODE}: {{keys: {{{key}}}}}}}\n")
    target.chmod(0o640)
    path.symlink_to(target)
    key_admin.new_key(path, NODE)
    text = target.read_text()
    assert text.startswith("# ours\n")
    assert "${file:secret}" in text
    assert path.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_nodes_first_key_is_its_default(path: Path) -> None:
    for _ in range(2):
        key_admin.new_key(path, NODE)
    assert key(path, "00000001").default
    assert not key(path, "00000002").default


def test_a_node_is_made_up_if_none_is_named(path: Path) -> None:
    first, second = key_admin.new_key(path), key_admin.new_key(path)
    assert first.node != second.node
    assert len(trust_file.load(path).keys.nodes) == 2


def test_an_id_is_not_given_twice(path: Path) -> None:
    key_admin.new_key(path, NODE, key_id="0000000A")
    with pytest.raises(KeyAdminError) as refused:
        key_admin.new_key(path, NODE, key_id="0000000a")
    assert "has a key 0000000a already" in str(refused.value)
    assert key_admin.new_key(path, NODE).key_id == "0000000b"


def test_after_the_last_id_one_must_be_named(path: Path) -> None:
    key_admin.new_key(path, NODE, key_id="ffffffff")
    with pytest.raises(KeyAdminError) as refused:
        key_admin.new_key(path, NODE)
    assert "name one" in str(refused.value)


def test_a_key_of_no_known_kind_is_none(path: Path) -> None:
    with pytest.raises(KeyAdminError) as refused:
        key_admin.new_key(path, NODE, kinds=["rsa"])
    assert "hmac, ed25519, encryption" in str(refused.value)


def test_validity_is_kept(path: Path) -> None:
    made = key_admin.new_key(path, NODE, not_before=NOW, not_after=NOW + HOUR)
    assert not holds(path, made.key_id, NOW - HOUR)
    assert holds(path, made.key_id, NOW)
    assert not holds(path, made.key_id, NOW + HOUR)


def test_after_a_rotation_both_keys_hold_for_a_while(path: Path) -> None:
    key_admin.new_key(path, NODE, kinds=["hmac", "encryption"])
    made = key_admin.rotate_key(path, NODE, now=NOW, overlap=HOUR)
    assert (made.key_id, sorted(made.secrets)) == ("00000002", ["encryption", "hmac"])
    assert holds(path, "00000001", NOW)
    assert holds(path, "00000002", NOW)
    assert not holds(path, "00000001", NOW + HOUR)
    assert holds(path, "00000002", NOW + HOUR)
    assert key(path, "00000002").default


def test_a_rotation_does_not_prolong_a_key(path: Path) -> None:
    key_admin.new_key(path, NODE, not_after=NOW + HOUR / 2)
    key_admin.rotate_key(path, NODE, now=NOW, overlap=HOUR)
    assert not holds(path, "00000001", NOW + HOUR / 2)


def test_a_rotation_follows_the_latest_key_that_holds(path: Path) -> None:
    key_admin.new_key(path, NODE, kinds=["hmac"], default=False)
    key_admin.new_key(path, NODE, kinds=["encryption"])
    key_admin.new_key(path, NODE, kinds=["ed25519"], not_after=NOW)
    assert list(key_admin.rotate_key(path, NODE, now=NOW).secrets) == ["encryption"]
    assert list(key_admin.rotate_key(path, NODE, now=NOW, key_id="00000001").secrets) == ["hmac"]


def test_a_revoked_key_holds_no_more_but_still_did(path: Path) -> None:
    key_admin.new_key(path, NODE)
    key_admin.revoke_key(path, NODE, "00000001", now=NOW)
    assert not holds(path, "00000001", NOW)
    assert holds(path, "00000001", NOW - HOUR)
    assert not key(path, "00000001").default


def test_a_key_revoked_before_it_began_never_holds(path: Path) -> None:
    key_admin.new_key(path, NODE, not_before=NOW + HOUR)
    key_admin.revoke_key(path, NODE, "00000001", now=NOW)
    assert not any(holds(path, "00000001", NOW + HOUR * n) for n in (-1, 0, 1, 2))


@pytest.mark.parametrize(
    ("node", "key_id", "told"),
    [
        ("x", "00000001", "x is no node"),
        (NODE.replace("0", "1"), "00000001", "no node"),
        (NODE, "00000009", "no key 00000009"),
    ],
)
def test_what_is_not_there_cannot_be_revoked_or_rotated(path: Path, node: str, key_id: str, told: str) -> None:
    key_admin.new_key(path, NODE)
    with pytest.raises(KeyAdminError) as refused:
        key_admin.revoke_key(path, node, key_id, now=NOW)
    assert told in str(refused.value)
    with pytest.raises(KeyAdminError) as refused:
        key_admin.rotate_key(path, node, now=NOW, key_id=key_id)
    assert told in str(refused.value)


def test_a_node_is_found_however_it_is_spelt(path: Path) -> None:
    path.write_text(f'nodes: {{{NODE.upper()}: {{keys: {{"0000000A": {{hmac: "{"5e" * 32}"}}}}}}}}\n')
    key_admin.rotate_key(path, NODE, now=NOW, overlap=HOUR)
    key_admin.revoke_key(path, NODE.upper(), "0000000a", now=NOW)
    assert len(trust_file.load(path).keys.nodes[NODE_ID]) == 2
    assert not holds(path, "0000000a", NOW)


def test_the_gateways_keys_are_made_once(path: Path) -> None:
    first = key_admin.ensure_identity(path, NODE)
    assert (first.node, first.key_id.hex()) == (NODE_ID, "000000ff")
    assert key_admin.ensure_identity(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_gateways_keys_are_made_under_the_name_that_the_configuration_has(path: Path) -> None:
    made = key_admin.ensure_identity(path, NODE, entry="own")
    assert trust_file.load(path, entry="own").identity == made
    key_admin.new_key(path, NODE)
    assert key_admin.ensure_identity(path, entry="own") == made
    assert trust_file.load(path).identity is None


def test_the_gateways_keys_are_made_beside_those_of_nodes(path: Path) -> None:
    key_admin.new_key(path, NODE)
    made = key_admin.ensure_identity(path)
    trust = trust_file.load(path)
    assert trust.identity == made
    assert NODE_ID in trust.keys.nodes


@pytest.mark.parametrize("entry", ["gateway", "own"])
def test_the_gateway_signs_with_its_new_key_and_its_old_one_is_believed_for_a_while(path: Path, entry: str) -> None:
    old = key_admin.ensure_identity(path, entry=entry)
    made = key_admin.rotate_identity(path, now=NOW, overlap=HOUR, entry=entry)
    listed = [(row.gateway, row.key_id, row.ed25519) for row in key_admin.list_keys(path, NOW, entry=entry)]
    assert listed == [(True, "00000100", made.public), (False, "000000ff", public_of(old.ed25519_private).hex())]
    kept = trust_file.load(path, entry=entry).keys.nodes[old.node][old.key_id]
    assert kept.valid_at(trust_file.microseconds(NOW))
    assert not kept.valid_at(trust_file.microseconds(NOW + HOUR))
    new = trust_file.load(path, entry=entry).identity
    assert new is not None
    assert (new.node, new.key_id.hex()) == (old.node, "00000100")
    assert public_of(new.ed25519_private).hex() == made.public
    assert new.ed25519_private != old.ed25519_private


def test_without_a_gateway_there_is_nothing_to_rotate(path: Path) -> None:
    with pytest.raises(KeyAdminError) as refused:
        key_admin.rotate_identity(path, now=NOW)
    assert "no entry for the gateway" in str(refused.value)


def test_the_list_says_all_but_the_secrets(path: Path) -> None:
    identity = key_admin.ensure_identity(path)
    made = key_admin.new_key(path, NODE, kinds=key_admin.KINDS, not_after=NOW + HOUR)
    key_admin.new_key(path, NODE, not_before=NOW + HOUR)
    key_admin.new_key(path, NODE, not_after=NOW)
    listed = key_admin.list_keys(path, NOW)
    assert [(row.key_id, row.gateway, row.state) for row in listed] == [
        ("000000ff", True, "valid"),
        ("00000001", False, "valid"),
        ("00000002", False, "not yet valid"),
        ("00000003", False, "expired"),
    ]
    assert listed[0].ed25519 == public_of(identity.ed25519_private).hex()
    assert (listed[1].hmac, listed[1].encryption, listed[1].ed25519) == (True, True, made.public)
    assert listed[1].not_after == "2026-01-01T01:00:00Z"
    shown = repr(listed)
    assert not any(secret in shown for secret in (*made.secrets.values(), identity.ed25519_private.hex()))


def test_a_new_keys_repr_hides_its_secrets(path: Path) -> None:
    made = key_admin.new_key(path, NODE)
    assert made.secrets["hmac"] not in repr(made)

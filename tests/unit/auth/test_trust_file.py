"""The trust store's file: what it says, and every way of saying it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.auth import trust_file
from gateway.auth.trust_file import MAX_HMAC_BYTES, MIN_HMAC_BYTES
from gateway.core.yaml_files.faults import ConfigError

NODE = "00112233-4455-6677-8899-aabbccddeeff"
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
SECRET = "5e" * 32

WHOLE = f"""
gateway: {{node: {NODE}, key_id: "000000ff", ed25519_private: {SEED}, hmac: "{SECRET}"}}
nodes:
  {NODE.upper()}:
    keys:
      "0000000A":
        hmac: "{SECRET}"
        ed25519: {PUBLIC}
        encryption: "{SECRET}"
        default: true
        not_before: 2026-01-01T00:00:00Z
        not_after: 2026-01-01T02:00:00.5+01:00
"""


def read(text: str, **environment: str) -> trust_file.Trust:
    return trust_file.parse(text, Path("keys.yaml"), environment)


def faults(text: str, **environment: str) -> dict[str, str]:
    """Returns what is wrong, by its place."""
    try:
        read(text, **environment)
    except ConfigError as faulty:
        return {fault.path: fault.expected for fault in faulty.faults}
    return {}


def key_file(entry: str, key_id: str = '"00000001"') -> str:
    return f"nodes:\n  {NODE}:\n    keys:\n      {key_id}: {{{entry}}}\n"


def test_a_whole_file_is_read() -> None:
    trust = read(WHOLE)
    key = trust.keys.nodes[bytes.fromhex(NODE.replace("-", ""))][bytes.fromhex("0000000a")]
    assert (key.hmac, key.ed25519, key.encryption) == (
        bytes.fromhex(SECRET),
        bytes.fromhex(PUBLIC),
        bytes.fromhex(SECRET),
    )
    assert key.default
    assert (key.not_before, key.not_after) == (1_767_225_600_000_000, 1_767_229_200_500_000)
    assert trust.identity is not None
    assert trust.identity.ed25519_private.hex() == SEED
    assert trust.identity.key_id.hex() == "000000ff"


@pytest.mark.parametrize("text", ["", "nodes:", "nodes: {}", f"nodes: {{{NODE}: }}", f"nodes: {{{NODE}: {{keys: }}}}"])
def test_a_file_may_say_nothing(text: str) -> None:
    trust = read(text)
    assert trust.identity is None
    assert not any(trust.keys.nodes.values())


def test_values_come_from_the_environment_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    text = key_file('hmac: "${file:secret}", encryption: "${ENCRYPTION}"')
    trust = trust_file.parse(text, tmp_path / "keys.yaml", {"ENCRYPTION": SECRET})
    key = trust.keys.nodes[bytes.fromhex(NODE.replace("-", ""))][bytes.fromhex("00000001")]
    assert key.hmac == key.encryption == bytes.fromhex(SECRET)
    assert trust.files == (tmp_path / "secret",)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("node: {}", "node", "unknown key"),
        ("nodes: [1]", "nodes", "keys and values"),
        ("nodes: {here: }", "nodes.here", "a UUID"),
        (f"nodes: {{{NODE}: {{key: }}}}", f"nodes.{NODE}.key", "unknown key"),
        (f"nodes: {{{NODE}: , {NODE.upper()}: }}", f"nodes.{NODE.upper()}", "twice"),
        (key_file("hmac: x", "00000001"), f"nodes.{NODE}.keys.1", "in quotes"),
        (key_file("hmac: x", '"0001"'), f"nodes.{NODE}.keys.0001", "a key id"),
        (key_file("hmac: x", '"0000000g"'), f"nodes.{NODE}.keys.0000000g", "a key id"),
        (key_file(""), f"nodes.{NODE}.keys.00000001", "at least one of"),
        (key_file("default: true"), f"nodes.{NODE}.keys.00000001", "at least one of"),
        (key_file("secret: x"), f"nodes.{NODE}.keys.00000001.secret", "unknown key"),
        (key_file("hmac: xyz"), f"nodes.{NODE}.keys.00000001.hmac", "an HMAC secret"),
        (key_file("hmac: 17"), f"nodes.{NODE}.keys.00000001.hmac", "an HMAC secret"),
        (key_file(f'hmac: "{"5e" * (MIN_HMAC_BYTES - 1)}"'), f"nodes.{NODE}.keys.00000001.hmac", "got 15 bytes"),
        (key_file(f'hmac: "{"5e" * (MAX_HMAC_BYTES + 1)}"'), f"nodes.{NODE}.keys.00000001.hmac", "got 1025 bytes"),
        (key_file(f"ed25519: {PUBLIC[2:]}"), f"nodes.{NODE}.keys.00000001.ed25519", "got 31 bytes"),
        (key_file(f'ed25519: "01{"00" * 31}"'), f"nodes.{NODE}.keys.00000001.ed25519", "these bytes are none"),
        (key_file(f'encryption: "{SECRET[2:]}"'), f"nodes.{NODE}.keys.00000001.encryption", "got 31 bytes"),
        (key_file(f'hmac: "{SECRET}", default: "yes"'), f"nodes.{NODE}.keys.00000001.default", "true or false"),
        (key_file(f'hmac: "{SECRET}", not_after: soon'), f"nodes.{NODE}.keys.00000001.not_after", "RFC 3339"),
        (key_file(f'hmac: "{SECRET}", not_after: 2026-01-01'), f"nodes.{NODE}.keys.00000001.not_after", "RFC 3339"),
        (
            key_file(f'hmac: "{SECRET}", not_before: 2026-01-02T00:00:00Z, not_after: 2026-01-01T00:00:00Z'),
            f"nodes.{NODE}.keys.00000001.not_after",
            "after not_before",
        ),
        (f"gateway: {{node: {NODE}}}", "gateway.key_id", "missing"),
        (f"gateway: {{node: {NODE}}}", "gateway.ed25519_private", "missing"),
        (f"gateway: {{private: {SEED}}}", "gateway.private", "unknown key"),
        (key_file('hmac: "${NOT_THERE}"'), f"nodes.{NODE}.keys.00000001.hmac", "the environment has no NOT_THERE"),
        (key_file('hmac: "${file:not there}"'), f"nodes.{NODE}.keys.00000001.hmac", "cannot read not there"),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, place: str, expected: str) -> None:
    assert expected in faults(text)[place]


def test_a_secret_that_is_too_short_is_told_with_the_bounds_and_a_way_out() -> None:
    told = faults(key_file(f'hmac: "{SECRET[:16]}"'))[f"nodes.{NODE}.keys.00000001.hmac"]
    assert told == (
        "expected an HMAC secret: 16 to 1024 bytes in hex, got 8 bytes; `meshgate keys new` makes a good one"
    )


@pytest.mark.parametrize("size", [MIN_HMAC_BYTES, MAX_HMAC_BYTES])
def test_an_hmac_secret_may_have_the_least_and_the_most_bytes(size: int) -> None:
    assert faults(key_file(f'hmac: "{"5e" * size}"')) == {}


def test_a_time_may_be_of_either_case() -> None:
    upper, lower = (read(key_file(f'hmac: "{SECRET}", not_after: 2026-01-31{time}')) for time in ("T12:00Z", "t12:00z"))
    assert upper == lower


def test_all_faults_are_told_at_once() -> None:
    assert len(faults(key_file("hmac: x, ed25519: y, default: z"))) == 3


def test_a_fault_never_shows_the_value() -> None:
    secret = "0123456789abcdef" * 3
    told = faults(key_file(f'ed25519: "{secret}", encryption: "{secret}!", hmac: "{secret[:9]}"'))
    assert len(told) == 3
    assert not any("0123456" in expected for expected in told.values())


def test_what_is_no_yaml_is_one_fault() -> None:
    assert list(faults("nodes: [")) == [""]


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError) as missing:
        trust_file.load(Path("/nowhere/keys.yaml"))
    assert "/nowhere/keys.yaml: cannot read it" in str(missing.value)


def test_another_entry_may_hold_the_gateways_keys() -> None:
    trust = trust_file.parse(WHOLE.replace("gateway:", "second:"), Path("keys.yaml"), {}, entry="second")
    assert trust.identity is not None

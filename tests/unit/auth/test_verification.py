"""Tags and signatures: published vectors, then each byte of them flipped."""

from __future__ import annotations

import pytest

from gateway.auth.verification import (
    hmac_sha256,
    hmac_verifier,
    is_public_key,
    public_of,
    sign_ed25519,
    verify_ed25519,
    verify_hmac,
)

# RFC 4231, sections 4.2, 4.3 and 4.7 (a key longer than the hash's block)
HMACS = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
]
# RFC 8032, section 7.1, tests 1 to 3: seed, public key, message, signature
SIGNATURES = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
# Points of order 1, 2, 4 and 8
SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
]


def flipped(data: bytes) -> list[bytes]:
    return [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]


@pytest.mark.parametrize(("secret", "data", "tag"), HMACS)
def test_hmac_is_that_of_the_rfc(secret: bytes, data: bytes, tag: str) -> None:
    assert hmac_sha256(secret, data).hex() == tag
    assert verify_hmac(secret, data, bytes.fromhex(tag))


@pytest.mark.parametrize(("secret", "data", "tag"), HMACS)
def test_a_tag_or_message_with_any_byte_changed_is_refused(secret: bytes, data: bytes, tag: str) -> None:
    right = bytes.fromhex(tag)
    assert not any(verify_hmac(secret, data, wrong) for wrong in flipped(right))
    assert not any(verify_hmac(secret, wrong, right) for wrong in flipped(data))


@pytest.mark.parametrize("tag", [b"", bytes(31), bytes(33)])
def test_a_tag_of_another_length_is_refused(tag: bytes) -> None:
    assert not verify_hmac(b"secret", b"data", tag)


def test_one_prepared_secret_verifies_many_tags() -> None:
    verify = hmac_verifier(b"secret")
    tags = {data: hmac_sha256(b"secret", data) for data in (b"one", b"two")}
    assert all(verify(data, tag) for data, tag in tags.items())
    assert not verify(b"one", tags[b"two"])


@pytest.mark.parametrize(("seed", "public", "message", "signature"), SIGNATURES)
def test_ed25519_is_that_of_the_rfc(seed: str, public: str, message: str, signature: str) -> None:
    assert public_of(bytes.fromhex(seed)).hex() == public
    assert sign_ed25519(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature
    assert verify_ed25519(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


@pytest.mark.parametrize(("seed", "public", "message", "signature"), SIGNATURES)
def test_a_signature_key_or_message_with_any_byte_changed_is_refused(
    seed: str, public: str, message: str, signature: str
) -> None:
    key, data, right = (bytes.fromhex(text) for text in (public, message, signature))
    assert not any(verify_ed25519(key, data, wrong) for wrong in flipped(right))
    assert not any(verify_ed25519(wrong, data, right) for wrong in flipped(key))
    assert not any(verify_ed25519(key, wrong, right) for wrong in flipped(data))


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_key_of_small_order_signs_nothing(point: str) -> None:
    """Such a key would make R = the point and S = 0 a signature of about any message."""
    public = bytes.fromhex(point)
    assert not is_public_key(public)
    assert not any(verify_ed25519(public, bytes([n]), bytes.fromhex(SMALL_ORDER[0]) + bytes(32)) for n in range(64))


def test_a_key_or_signature_of_another_length_is_refused() -> None:
    _, public, message, signature = (bytes.fromhex(text) for text in SIGNATURES[1])
    assert not verify_ed25519(public[:31], message, signature)
    assert not verify_ed25519(public, message, signature[:63])

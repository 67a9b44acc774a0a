"""Key agreement and proofs, against published vectors."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256

import pytest

from gateway.auth.passwords import prove_password, verify_password
from gateway.protocols.wolpertinger.cipher import BLOB_BYTES, IV_BYTES, SCALAR_TOKEN_BYTES, Cipher, KeyPair
from tests.unit.protocols.wolpertinger.talk import VECTOR_CIPHER

# NIST CAVP, KAS ECC CDH primitive, P-521, COUNT = 0.
THEIR_X = (
    "000000685a48e86c79f0f0875f7bc18d25eb5fc8c0b07e5da4f4370f3a949034"
    "0854334b1e1b87fa395464c60626124a4e70d0f785601d37c09870ebf176666877a2046d"
)
THEIR_Y = (
    "000001ba52c56fc8776d9e8f5db4f0cc27636d0b741bbe05400697942e80b739"
    "884a83bde99e0f6716939e632bc8986fa18dccd443a348b6c3e522497955a4f3c302f676"
)
OUR_SCALAR = (
    "0000017eecc07ab4b329068fba65e56a1f8890aa935e57134ae0ffcce8027351"
    "51f4eac6564f6ee9974c5e6887a1fefee5743ae2241bfeb95d5ce31ddcb6f9edb4d6fc47"
)
OUR_X = (
    "000000602f9d0cf9e526b29e22381c203c48a886c2b0673033366314f1ffbcba"
    "240ba42f4ef38a76174635f91e6b4ed34275eb01c8467d05ca80315bf1a7bbd945f550a5"
)
OUR_Y = (
    "000001b7c85f26f5d4b2d7355cf6b02117659943762b6d1db5ab4f1dbc44ce7b"
    "2946eb6c7de342962893fd387d1b73d7a8672d1f236961170b7eb3579953ee5cdc88cd2d"
)
SHARED_X = (
    "005fc70477c3e63bc3954bd0df3ea0d1f41ee21746ed95fc5e1fdf90930d5e13"
    "6672d72cc770742d1711c3c3a4c334a0ad9759436a4d3c5bf6e74b9578fac148c831"
)

HEAD = b"ECK5" + (66).to_bytes(4, "little")
THEIRS = HEAD + bytes.fromhex(THEIR_X)[2:] + bytes.fromhex(THEIR_Y)[2:]
OURS = HEAD + bytes.fromhex(OUR_X)[2:] + bytes.fromhex(OUR_Y)[2:]


def our_pair() -> KeyPair:
    # A token gives the scalar that is one more than it.
    return KeyPair.from_token((int(OUR_SCALAR, 16) - 1).to_bytes(SCALAR_TOKEN_BYTES, "big"))


def test_the_public_key_is_the_published_one_in_a_blob() -> None:
    assert our_pair().blob == OURS
    assert len(OURS) == BLOB_BYTES == 140


def test_the_key_is_sha_256_of_the_published_x() -> None:
    assert our_pair().agree(THEIRS) == sha256(bytes.fromhex(SHARED_X)).digest()


def test_both_sides_agree() -> None:
    one, other = (KeyPair.from_token(bytes([number]) * SCALAR_TOKEN_BYTES) for number in (7, 0xFF))
    assert one.agree(other.blob) == other.agree(one.blob)


@pytest.mark.parametrize("token", [bytes(SCALAR_TOKEN_BYTES), b"\xff" * SCALAR_TOKEN_BYTES])
def test_any_token_makes_a_key(token: bytes) -> None:
    assert len(KeyPair.from_token(token).blob) == BLOB_BYTES


NO_KEYS = [
    pytest.param(b"", id="nothing"),
    pytest.param(THEIRS[:-1], id="a byte less"),
    pytest.param(THEIRS + b"\0", id="a byte more"),
    pytest.param(b"ECK3" + THEIRS[4:], id="another curve"),
    pytest.param(b"ECK6" + THEIRS[4:], id="a private blob"),
    pytest.param(THEIRS[:4] + (66).to_bytes(4, "big") + THEIRS[8:], id="a big-endian length"),
    pytest.param(THEIRS[:-1] + bytes([THEIRS[-1] ^ 1]), id="a point beside the curve"),
    pytest.param(HEAD + bytes(132), id="the origin"),
    pytest.param(HEAD + b"\xff" * 132, id="coordinates beyond the field"),
]


@pytest.mark.parametrize("blob", NO_KEYS)
def test_what_is_no_public_key_is_refused(blob: bytes) -> None:
    pair = our_pair()
    with pytest.raises(ValueError):  # noqa: PT011 - its text is for nobody
        pair.agree(blob)


def test_no_representation_shows_a_key() -> None:
    shown = repr(VECTOR_CIPHER)
    assert VECTOR_CIPHER.key.hex() not in shown
    assert repr(VECTOR_CIPHER.key) not in shown


def test_aes_pads_a_whole_block_on_a_whole_block() -> None:
    cipher = Cipher(bytes(32), bytes(IV_BYTES))
    assert len(cipher.encrypt(bytes(16))) == 32
    assert cipher.decrypt(cipher.encrypt(bytes(16))) == bytes(16)


TOKEN = b64decode("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
CLUSTER_KEY = "000102030405060708090a0b0c0d0e0f"
PROOF = "0EzEUoOtc8p623BSaT5ZTRHCnJcb15MupfZgBB9DB8iQeba9NGcpWGlZicVbbNyTx1JAUiaOqCaxXcZ7hToc7A=="


def test_the_proof_of_a_cluster_key_is_the_published_one() -> None:
    assert b64encode(prove_password(CLUSTER_KEY, TOKEN)).decode() == PROOF


def test_a_proof_flipped_in_any_byte_proves_nothing() -> None:
    proof = b64decode(PROOF)
    assert verify_password(CLUSTER_KEY, TOKEN, proof)
    for at in range(len(proof)):
        assert not verify_password(CLUSTER_KEY, TOKEN, proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :])


@pytest.mark.parametrize("proof", [b"", b64decode(PROOF)[:-1], b64decode(PROOF) + b"\0"])
def test_a_proof_of_another_length_proves_nothing(proof: bytes) -> None:
    assert not verify_password(CLUSTER_KEY, TOKEN, proof)


def test_the_empty_secret_proves_nothing_where_there_is_none() -> None:
    assert not verify_password(None, TOKEN, prove_password("", TOKEN))

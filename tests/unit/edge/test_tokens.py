"""Tokens: which are taken, whom they make of a session, and until when."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from jwt.api_jws import PyJWS

from gateway.config.auth import TokenSettings
from gateway.core.reasons import Reason, Rejected
from gateway.edge.tokens import MAX_TOKEN_BYTES, TokenVerifier
from tests.unit.edge.issuing import SECRET, Issuer

ALGORITHMS = ["EdDSA", "ES256", "RS256", "HS256"]


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def verifier(issued_by: Issuer, /, **changes: Any) -> TokenVerifier:
    return TokenVerifier(TokenSettings.model_validate(issued_by.settings["tokens"] | changes))


def refused(judge: TokenVerifier, token: str) -> str:
    with pytest.raises(Rejected) as why:
        judge.verify(token)
    assert why.value.reason is Reason.UNAUTHENTICATED
    return why.value.detail


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_good_token_makes_its_subject_a_node_until_it_expires(issuer: Issuer, algorithm: str) -> None:
    ends = int(time.time()) + 90
    identity = verifier(issuer).verify(issuer.token(algorithm, exp=ends))
    assert (identity.node, identity.until) == ("token:alice", ends)


@pytest.mark.parametrize("subject", ["user:alice", "anon:edge-0:7", "0b5c1a2e-8a54-4d7a-9f6e-7a1d2c3b4e5f"])
def test_no_subject_makes_a_session_another_kind_of_node(issuer: Issuer, subject: str) -> None:
    assert verifier(issuer).verify(issuer.token(sub=subject)).node == f"token:{subject}"


def test_another_claim_may_name_the_node(issuer: Issuer) -> None:
    token = issuer.token(device="pump-7")
    assert verifier(issuer, node_claim="device").verify(token).node == "token:pump-7"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"nbf": 4_000_000_000}, "not yet valid"),
        ({"iat": 4_000_000_000}, "not yet valid"),
        ({"aud": "another"}, "audience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example.org"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "a\nb"}, "sub"),
        ({"sub": "a" * 256}, "sub"),
    ],
)
def test_a_token_whose_claims_do_not_hold_is_refused(issuer: Issuer, claims: dict[str, Any], why: str) -> None:
    assert why in refused(verifier(issuer), issuer.token(**claims))


def test_without_an_issuer_in_the_configuration_any_issuer_will_do(issuer: Issuer) -> None:
    assert verifier(issuer, issuer=None).verify(issuer.token(iss=None)).node == "token:alice"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_that_was_changed_or_signed_by_somebody_else_is_refused(tmp_path: Path, algorithm: str) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    issuer = Issuer(own)
    head, claims, signature = issuer.token(algorithm).split(".")
    foreign = json.dumps({"sub": "eve", "aud": "mesh", "exp": 4_000_000_000}).encode()
    changed = base64.urlsafe_b64encode(foreign).decode().rstrip("=")
    assert refused(verifier(issuer), f"{head}.{changed}.{signature}")
    if algorithm in ("EdDSA", "ES256"):
        assert refused(verifier(issuer), Issuer(other).token(algorithm))
    assert refused(verifier(issuer), f"{head}.{claims}.")


def test_a_public_key_is_no_shared_secret(issuer: Issuer) -> None:
    """Who takes the algorithm from the token can be made to verify HMAC with a key that everybody has."""
    public = issuer.keys["EdDSA"].public_key()
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    claims = {"sub": "eve", "aud": "mesh", "iss": issuer.settings["tokens"]["issuer"], "exp": 4_000_000_000}
    forged = jwt.encode(claims, raw, algorithm="HS256", headers={"kid": "EdDSA"})
    assert refused(verifier(issuer), forged)
    assert refused(verifier(issuer, secret=None), forged)


@pytest.mark.parametrize("algorithm", ["none", "HS384", "PS256"])
def test_an_algorithm_that_is_not_taken_is_refused(issuer: Issuer, algorithm: str) -> None:
    key: Any = None if algorithm == "none" else issuer.keys["RS256"] if algorithm == "PS256" else SECRET * 2
    forged = jwt.encode({"sub": "eve", "aud": "mesh", "exp": 4_000_000_000}, key, algorithm=algorithm)
    assert refused(verifier(issuer), forged)


@pytest.mark.parametrize("token", ["", ".", "..", "a.b.c", "é", "\x00", "x" * MAX_TOKEN_BYTES, "x" * 10_000_000])
def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    assert refused(verifier(issuer), token)


@pytest.mark.parametrize("part", [0, 1])
def test_a_token_that_nests_too_deeply_is_refused(issuer: Issuer, part: int) -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 5_000).decode().rstrip("=")
    parts = issuer.token().split(".")
    parts[part] = deep
    assert refused(verifier(issuer), ".".join(parts))


def test_a_token_that_nests_too_deeply_is_refused_from_its_issuer_too(issuer: Issuer) -> None:
    claims = b'{"sub":"alice","aud":"mesh","exp":4000000000,"a":' + b"[" * 5_000 + b"]" * 0 + b"}"
    assert refused(verifier(issuer), PyJWS().encode(claims, SECRET, algorithm="HS256"))


@pytest.mark.parametrize("ends", [10**400, 1e308, -1, True, [], {}])
def test_an_end_that_is_no_time_is_refused(issuer: Issuer, ends: Any) -> None:
    judge = verifier(issuer)
    if ends == 1e308:
        assert judge.verify(issuer.token(exp=ends)).until == ends
    else:
        assert refused(judge, issuer.token(exp=ends))


def test_a_key_is_found_by_its_kind_where_the_token_names_none(issuer: Issuer) -> None:
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    unnamed = jwt.encode(claims, issuer.keys["EdDSA"], algorithm="EdDSA")
    assert verifier(issuer).verify(unnamed).node == "token:alice"


def test_a_key_set_that_changes_is_read_again_and_a_broken_one_changes_nothing(issuer: Issuer) -> None:
    judge, token = verifier(issuer), issuer.token("ES256")
    issuer.jwks.write_text("no keys")
    judge.refresh()
    assert judge.verify(token).node == "token:alice"
    issuer.publishes("EdDSA")
    judge.refresh()
    assert refused(judge, token)


@pytest.mark.parametrize("text", ["", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AAAA"}]}'])
def test_a_key_set_without_a_public_key_is_of_no_use(issuer: Issuer, text: str) -> None:
    issuer.jwks.write_text(text)
    with pytest.raises(ValueError, match="key set"):
        verifier(issuer)

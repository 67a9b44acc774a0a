"""Tests how a configuration says whose tokens count, and where a login is required."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.config import check_files, redacted
from tests.unit.config.reading import expect_fault, read

SECRET = "0123456789abcdef0123456789abcdef"
TOKENS = f"mesh: demo\nauth: {{tokens: {{jwks: keys/jwks.json, secret: {SECRET}, audience: mesh}}}}"


@pytest.mark.parametrize(
    ("tokens", "place", "expected"),
    [
        ("{jwks: a.json}", "auth.tokens.audience", "missing"),
        ("{audience: mesh}", "auth.tokens", "expected jwks, secret, or both"),
        (f"{{audience: mesh, secret: {SECRET[:-1]}}}", "auth.tokens.secret", "expected 32 bytes at least"),
        ("{audience: mesh, jwks: a.json, keys: b}", "auth.tokens.keys", "unknown key"),
    ],
)
def test_what_could_let_anybody_in_is_a_fault(tokens: str, place: str, expected: str) -> None:
    expect_fault(f"mesh: demo\nauth: {{tokens: {tokens}}}", place, expected)


def test_the_secret_is_hidden_and_the_rest_is_shown() -> None:
    shown = redacted(read(TOKENS))
    assert SECRET not in json.dumps(shown)
    assert shown["auth"]["tokens"]["audience"] == "mesh"


def test_the_router_never_has_it() -> None:
    assert read(TOKENS).for_router().auth.tokens is None


def test_a_key_set_that_is_not_there_is_told(tmp_path: Path) -> None:
    config = read(TOKENS, path=tmp_path / "meshgate.yaml")
    assert [fault.path for fault in check_files(config)] == ["auth.tokens.jwks"]


def test_packets_have_no_login() -> None:
    text = "mesh: demo\nlisteners: [{name: a, protocol: emm, listen: 'udp://h:1', require_login: true}]"
    expect_fault(text, "listeners[0].require_login", "unauthenticated")

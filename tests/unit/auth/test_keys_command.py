"""`meshgate keys`, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.auth import trust_file
from gateway.auth.key_admin import ensure_identity, labels_of
from gateway.cli import main

NODE = "00112233-4455-6677-8899-aabbccddeeff"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


def run(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["keys", *words, "--trust", str(path)])


def run_json(path: Path, *words: str) -> Any:
    result = run(path, *words, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_key_is_made_listed_rotated_and_revoked(path: Path) -> None:
    made = run_json(path, "new", NODE)
    rotated = run_json(path, "rotate", NODE, "--overlap", "24h")
    assert (made["key_id"], rotated["key_id"]) == ("00000001", "00000002")
    assert run(path, "revoke", NODE, "00000001").exit_code == 0
    assert [(row["key_id"], row["state"]) for row in run_json(path, "list")] == [
        ("00000001", "expired"),
        ("00000002", "valid"),
    ]


def test_a_label_is_shown_and_followed_by_the_next_key(path: Path) -> None:
    run_json(path, "new", NODE, "--label", "garden sensor")
    run_json(path, "rotate", NODE)
    run_json(path, "new")
    assert [row["label"] for row in run_json(path, "list") if row["node"] == NODE] == ["garden sensor"] * 2
    assert "garden sensor" in run(path, "list").stdout
    assert labels_of(path) == {NODE: "garden sensor"}


def test_a_label_that_would_steer_a_terminal_is_refused(path: Path) -> None:
    result = run(path, "new", NODE, "--label", "a\x1b[2J")
    assert result.exit_code != 0
    assert "expected a label: printable text" in result.stderr
    assert not path.exists()


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_list_shows_no_secret(path: Path, output: str) -> None:
    made = run_json(path, "new", NODE, "--kind", "hmac", "--kind", "ed25519", "--kind", "encryption")
    listed = run(path, "list", "--output", output).output
    assert made["public"] in listed
    assert len(made["secrets"]) == 3
    assert not any(secret in listed for secret in made["secrets"].values())


def test_the_text_of_a_new_key_is_what_the_device_needs(path: Path) -> None:
    lines = run(path, "new", NODE).output.splitlines()
    key = trust_file.load(path).keys.nodes[bytes.fromhex(NODE.replace("-", ""))][bytes.fromhex("00000001")]
    assert key.hmac is not None
    assert f"hmac:       {key.hmac.hex()}" in lines


def test_a_public_key_alone_makes_a_key_for_signatures(path: Path) -> None:
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    made = run_json(path, "new", NODE, "--public", public)
    assert (made["public"], made["secrets"]) == (public, {})


def test_the_gateways_keys_stand_where_the_configuration_says(tmp_path: Path) -> None:
    config = tmp_path / "meshgate.yaml"
    config.write_text("mesh: demo\nidentity: {key: main}\ntrust: mine.yaml\n")
    ensure_identity(tmp_path / "mine.yaml", entry="main")
    assert CliRunner().invoke(main, ["keys", "rotate", "gateway", "-c", str(config)]).exit_code == 0
    listed = CliRunner().invoke(main, ["keys", "list", "-c", str(config), "--output", "json"])
    assert [(row["key_id"], row["gateway"]) for row in json.loads(listed.stdout)] == [
        ("00000100", True),
        ("000000ff", False),
    ]


@pytest.mark.parametrize("moment", ["7d", "+7d"])
def test_a_key_ends_some_time_from_now(path: Path, moment: str) -> None:
    run_json(path, "new", NODE, "--not-after", moment)
    (row,) = run_json(path, "list")
    left = datetime.fromisoformat(row["not_after"]) - datetime.now(UTC)
    assert timedelta(days=6) < left <= timedelta(days=7)


def test_the_gateway_is_rotated_by_its_name(path: Path) -> None:
    result = run(path, "rotate", "gateway")
    assert result.exit_code == 1
    assert "no entry for the gateway" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("revoke", NODE, "00000009"), 1, "no node"),
        (("new", "x"), 1, "x is no node"),
        (("new", NODE, "--key-id", "1"), 2, "1 is no key id: expected 8 hex digits"),
        (("rotate", "gateway", "--public", "00" * 32), 2, "--public are for nodes"),
        (("new", NODE, "--not-after", "soon"), 2, "soon is no RFC 3339 time"),
        (("new", NODE, "--not-after", "2026-01-01T00:00:00"), 2, "no RFC 3339 time"),
        (("new", NODE, "--not-before", "2d", "--not-after", "1d"), 78, "a time after not_before"),
        (("rotate", NODE, "--overlap", "1y"), 2, "1y is no length of time"),
        (("list",), 78, "cannot read it"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_an_exit_code(
    path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    result = run(path, *words)
    assert result.exit_code == code
    assert told in result.stderr.splitlines()[0]
    assert not path.exists()


def test_the_trust_store_is_the_one_the_configuration_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meshgate.yaml").write_text("mesh: demo\ntrust: trusted.yaml\n")
    result = CliRunner().invoke(main, ["keys", "new", NODE])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "trusted.yaml").exists()


def test_the_trust_store_is_utf_8_whatever_the_locale(path: Path) -> None:
    run_json(path, "new", NODE, "--label", "Gärten")
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "gateway.cli", "keys", "list", "--trust", str(path), "--json"]
    run = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert "Gärten" in {row["label"] for row in json.loads(run.stdout)}

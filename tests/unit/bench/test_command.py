"""`meshgate bench` as a shell sees it, as far as it goes without a mesh."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.auth import key_admin
from tests.unit.cli.running import run, said


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "meshgate.yaml"
    path.write_text(
        "mesh: demo\nedge: {management: '127.0.0.1:1'}\nlisteners:\n  - {name: emm, protocol: emm, listen: 'udp://127.0.0.1:1'}\n"
    )
    key_admin.ensure_identity(tmp_path / "keys.yaml")
    return path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--request"], "--from emm: emm has no requests"),
        (["--size", "549"], "--size 549: an emm packet has at most 548 bytes"),
        (["--size", "90"], "--size 90: a packet signed like this has at least"),
        (["--key", "gateway"], "--sign hmac: the key has no HMAC part"),
        (["--key", "no-such-key"], "--key: no such file, and the trust store has no such NODE, NODE/KEY_ID or secret"),
        (["--key", "gateway", "--sign", "ed25519", "--fan-out", "2"], "--fan-out 2: a node of emm has one lease"),
        (["--sessions", "10001"], "--sessions 10001: the run has only 10000 frames"),
        (["--rate", "1e9"], "--rate, --seconds: the frames of this run take"),
        (["--rate", "1e9", "--from", "yamp"], "--rate, --seconds: the frames of this run take"),
        (["--self", "--to", "yamp"], "--self: from emm to one subscriber of emm"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_begun(
    config: Path, arguments: list[str], complaint: str
) -> None:
    keys = (config.parent / "keys.yaml").read_text()
    result = run("bench", "-c", str(config), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert (config.parent / "keys.yaml").read_text() == keys


@pytest.mark.parametrize("arguments", [(), ("--sign", "none"), ("--key", "gateway", "--sign", "ed25519"),
                                       ("--from", "yamp", "--to", "yamp")])  # fmt: skip
def test_where_no_mesh_runs_it_is_told_at_once_and_no_key_is_written(config: Path, arguments: tuple[str, ...]) -> None:
    keys = (config.parent / "keys.yaml").read_text()
    result = run("bench", "-c", str(config), *arguments)
    assert (result.exit_code, result.stdout) == (69, "")
    assert result.stderr == (
        "meshgate: edge.management 127.0.0.1:1 does not answer (Connection refused): is the edge running?\n"
    )
    assert (config.parent / "keys.yaml").read_text() == keys


def test_a_run_without_a_mesh_ends_with_its_document_and_its_picture(tmp_path: Path) -> None:
    saved, drawn = tmp_path / "run.json", tmp_path / "run.svg"
    files = ("--save", str(saved), "--plot", str(drawn))
    result = run("bench", "--self", "--rate", "200", "--seconds", "0.2", "--warm-up", "0", "--output", "json", *files)
    found = said(result)
    assert result.exit_code == 0
    assert found["frames"]["lost"] == 0
    assert found["flat_out"]["cpu_us_per_packet"] > 0
    assert saved.exists()
    assert drawn.read_text().startswith("<svg")

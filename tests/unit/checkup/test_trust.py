"""Keys and certificates by the days they have left, and secrets that others can read."""

from __future__ import annotations

import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.auth.key_admin import ensure_identity, list_keys, new_key, rotate_key
from gateway.checkup.findings import Finding, Level
from gateway.checkup.trust import check_trust, judge_certificates, judge_keys
from gateway.config import Config, parse
from tests.unit.edge.certificates import Authority

NOW = datetime.now(UTC)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    ensure_identity(tmp_path / "keys.yaml")
    return parse("mesh: demo", tmp_path / "meshgate.yaml", {})


@pytest.mark.parametrize(("days", "level"), [(None, Level.OK), (90, Level.OK), (29, Level.WARN), (-1, Level.WARN)])
def test_a_node_is_as_well_as_the_key_that_holds_longest(config: Config, days: int | None, level: Level) -> None:
    node = new_key(config.trust, not_after=NOW - timedelta(days=9)).node
    until = None if days is None else NOW + timedelta(days=days)
    new_key(config.trust, node, not_after=until)
    finding = judge_keys(list_keys(config.trust, NOW), NOW)
    assert finding.level is level
    assert (node in finding.text) is (level is Level.WARN)


def test_the_advice_for_a_node_whose_keys_end_can_be_followed(config: Config) -> None:
    node = new_key(config.trust, not_after=NOW + timedelta(days=9)).node
    assert judge_keys(list_keys(config.trust, NOW), NOW).remedy == "meshgate keys rotate NODE"
    rotate_key(config.trust, node, now=NOW)
    assert judge_keys(list_keys(config.trust, NOW), NOW).level is Level.OK
    later = NOW + timedelta(days=10)
    lost = new_key(config.trust, not_after=NOW + timedelta(days=9)).node
    assert judge_keys(list_keys(config.trust, later), later).remedy.startswith("meshgate keys new NODE")
    new_key(config.trust, lost)
    assert judge_keys(list_keys(config.trust, later), later).level is Level.OK


def test_keys_are_counted_as_people_count(config: Config) -> None:
    assert judge_keys(list_keys(config.trust, NOW), NOW).text == "1 key of 1 node"
    new_key(config.trust)
    assert judge_keys(list_keys(config.trust, NOW), NOW).text == "2 keys of 2 nodes"


@pytest.mark.parametrize(
    ("days", "level", "words"),
    [
        (60.5, Level.OK, "60 days"),
        (29, Level.WARN, "29 days"),
        (2, Level.FAIL, "2 days"),
        (1, Level.FAIL, "in 1 day"),
        (-8, Level.FAIL, "8 days ago"),
    ],
)
def test_a_certificate_is_judged_by_its_days(tmp_path: Path, days: float, level: Level, words: str) -> None:
    certificate = Path(Authority(tmp_path).signs("edge", until=NOW + timedelta(days=days))["cert"])
    finding = judge_certificates("listeners[0].tls.cert", certificate, NOW)
    assert (finding.level, finding.text.endswith(words), finding.unit) == (level, True, "days")


def test_a_file_that_is_no_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    finding = judge_certificates("listeners[0].tls.cert", tmp_path / "cert.pem", NOW)
    assert (finding.level, finding.text.endswith("/cert.pem is of no use: it holds no certificate (PEM)")) == (
        Level.FAIL, True,
    )  # fmt: skip


def test_secrets_that_others_can_read_are_told(config: Config) -> None:
    def files() -> Finding:
        return next(one for one in check_trust(config, NOW) if one.check == "trust files")

    assert files().level is Level.OK
    config.trust.chmod(0o644)
    assert (files().level, files().remedy) == (Level.WARN, f"chmod 600 {config.trust}")
    subprocess.run(shlex.split(files().remedy), check=True)
    assert files().level is Level.OK


def test_a_trust_store_that_is_broken_or_has_no_gateway_is_a_failure(config: Config) -> None:
    config.trust.write_text("nodes: {}")
    assert next(iter(check_trust(config, NOW))).text.endswith("has no entry gateway")
    config.trust.write_text("bogus: 1")
    assert next(iter(check_trust(config, NOW))).level is Level.FAIL

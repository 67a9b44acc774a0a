"""`check`: its lines, its exit codes, and the forms that monitoring systems read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.auth.key_admin import ensure_identity
from gateway.checkup.findings import Finding, Level
from gateway.cli.check_text import as_nagios, as_prometheus
from tests.unit.cli.running import run, said

FINDINGS = [
    Finding("trust listeners[0].tls.cert", Level.WARN, "cert.pem ends in 9 days", "renew it", 9.5, "days"),
    Finding("kafka clock", Level.OK, "Kafka's clock is 0.00 s ahead of ours", value=0.0, unit="seconds"),
    Finding("parts edge", Level.FAIL, 'a|b "c"', "start it"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new configuration, and no mesh that runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.kafka.topics.LOOK_SECONDS", 0.0)
    (tmp_path / "meshgate.yaml").write_text(
        "{mesh: demo, kafka: {bootstrap: '127.0.0.1:1'}, edge: {management: '127.0.0.1:2'},"
        " router: {management: '127.0.0.1:3'}}"
    )
    return tmp_path


@pytest.fixture
def keys(folder: Path) -> None:
    ensure_identity(folder / "keys.yaml")


def test_all_is_well_where_nothing_is_wrong() -> None:
    result = run("check", "--only", "access")
    assert result.exit_code == 0
    assert result.stdout.endswith("2 ok\n")


def test_warnings_are_told_with_what_to_do() -> None:
    result = run("check", "--only", "trust")
    assert result.exit_code == 1
    assert re.search(r"^warn  trust keys: there is no .*keys.yaml yet  -> meshgate up or init", result.stdout)


def test_a_warning_of_the_configuration_names_the_setting_to_be_explained(keys: None, folder: Path) -> None:
    (folder / "meshgate.yaml").write_text("{mesh: demo, router: {lanes: 2}}")
    (line,) = run("check", "--only", "configuration").stdout.splitlines()[:-1]
    verb = line.rpartition("-> meshgate ")[2].split()
    assert (verb, run(*verb).exit_code) == (["explain", "router.lanes"], 0)


def test_what_does_not_answer_is_a_failure() -> None:
    result = run("check", "--only", "kafka", "--only", "parts", "--json")
    assert result.exit_code == 2
    document = said(result)
    assert document["status"] == "fail"
    assert {finding["check"] for finding in document["findings"]} == {
        "kafka brokers", "parts edge 127.0.0.1:2", "parts router 127.0.0.1:3",
    }  # fmt: skip


def test_a_configuration_that_cannot_be_read_is_a_failure_of_its_own(folder: Path) -> None:
    (folder / "meshgate.yaml").write_text("mesh: demo\nbogus: 1\n")
    result = run("check")
    assert result.exit_code == 2
    assert result.stdout.startswith("fail  configuration: meshgate.yaml:2: bogus: unknown key")


@pytest.mark.usefixtures("keys")
def test_a_watch_tells_of_each_probe_and_ends_as_the_worst_of_them() -> None:
    result = run("check", "--only", "access", "--watch", "-n", "2", "--interval", "0", "--json")
    assert result.exit_code == 1
    _, *probes = map(json.loads, result.stdout.splitlines())
    assert [(probe["check"], probe["level"]) for probe in probes] == [("path probe", "warn")] * 2


def test_without_keys_no_probe_can_be_sent() -> None:
    result = run("check", "--only", "access", "--watch", "-n", "1", "--output", "nagios")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[1].startswith("MESHGATE CRITICAL - path probe: ")


def test_nagios_gets_one_line_of_status_and_its_numbers() -> None:
    first, *others = as_nagios(FINDINGS).splitlines()
    assert first == (
        "MESHGATE CRITICAL - trust listeners[0].tls.cert: cert.pem ends in 9 days"
        " | 'trust listeners[0].tls.cert'=9.5 'kafka clock'=0s"
    )
    assert others == [
        "WARNING: trust listeners[0].tls.cert: cert.pem ends in 9 days (renew it)",
        'CRITICAL: parts edge: a/b "c" (start it)',
    ]
    assert as_nagios(FINDINGS[1:2]).startswith("MESHGATE OK - 1 ok | ")


def test_prometheus_gets_a_gauge_for_each_check() -> None:
    families = {family.name: family for family in text_string_to_metric_families(as_prometheus(FINDINGS) + "\n")}
    status = {one.labels["check"]: one.value for one in families["meshgate_check_status"].samples}
    assert status == {"trust listeners[0].tls.cert": 1, "kafka clock": 0, "parts edge": 2}
    values = {one.labels["unit"]: one.value for one in families["meshgate_check_value"].samples}
    assert values == {"days": 9.5, "seconds": 0}

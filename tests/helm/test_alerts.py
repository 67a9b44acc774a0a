"""Alerts: each goes off when it must and not otherwise, by Prometheus's own tool, and says what to do then."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.dashboards.security import UNPROVEN
from tests.helm.chart import CHART
from tests.helm.promql import selectors
from tests.integration.prometheus import prometheus_program
from tests.unit.observability.metrics.told import FROM_PROMETHEUS, told

FILES = sorted((CHART / "alerts").glob("*.yaml"))
TESTS = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RUNBOOKS = CHART.parents[1] / "k8s" / "RUNBOOKS.md"
PROMTOOL_SECONDS = 60
SUBJECTS = {
    "MeshgateLag", "MeshgateFramesMissing", "MeshgateRejections", "MeshgateReplays", "MeshgateWatermarkDrops",
    "MeshgateEgressOld", "MeshgateEdgeDown", "MeshgateCertificateEnds", "MeshgateNodeKeyEnds", "MeshgateNoCommit",
    "MeshgateStateGrows", "MeshgateManyIds",
}  # fmt: skip
"""Lag, loss, rejections, replays, rows dropped as late, the egress, an edge, certificates, keys, commits, the state,
memory for ids."""


def rules() -> Iterator[dict[str, Any]]:
    for path in FILES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


RULES = {rule["alert"]: rule for rule in rules()}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(prometheus_program("promtool")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROMTOOL_SECONDS, check=False)


def expectations() -> Iterator[tuple[str, bool]]:
    """Alerts by name, and whether a test expects that it goes off."""
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for each in test["alert_rule_test"]:
                yield each["alertname"], bool(each["exp_alerts"])


def test_the_rules_are_well_formed() -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, FILES))
    assert said.returncode == 0, said.stdout + said.stderr


def test_each_goes_off_and_is_silent_when_it_must() -> None:
    said = promtool("test", "rules", *map(str, TESTS))
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_test_that_expects_something_else_fails(tmp_path: Path) -> None:
    """So the one above can."""
    wrong = (
        TESTS[0]
        .read_text()
        .replace("../../../helm", str(CHART.parent))
        .replace("edge-0 has waited", "edge-9 has waited")
    )
    (tmp_path / "wrong.yaml").write_text(wrong)
    said = promtool("test", "rules", str(tmp_path / "wrong.yaml"))
    assert said.returncode == 1
    assert "MeshgateEgressOld" in said.stdout + said.stderr


def test_each_has_a_test_in_which_it_goes_off_and_one_in_which_it_does_not() -> None:
    seen = Counter(expectations())
    assert {(name, fires) for name in RULES for fires in (True, False)} == set(seen)


def test_there_is_one_for_each_thing_that_must_be_told() -> None:
    assert SUBJECTS <= set(RULES)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_each_asks_for_what_the_product_tells(rule: dict[str, Any]) -> None:
    for selector in selectors(rule["expr"]):
        known = FROM_PROMETHEUS if selector.name == "up" else told()[selector.name]
        assert selector.labels <= known, selector.name


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_each_says_how_bad_it_is_and_where_it_stands_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page == str(RUNBOOKS.relative_to(CHART.parents[1]))
    assert anchor in anchors()


def test_every_runbook_is_some_alert_s() -> None:
    pointed_at = [rule["annotations"]["runbook_url"].partition("#")[2] for rule in RULES.values()]
    assert anchors() == list(dict.fromkeys(pointed_at))


def test_the_table_of_the_runbooks_lists_each_with_its_severity() -> None:
    rows = re.findall(r"(?m)^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \|", RUNBOOKS.read_text())
    assert rows == [(name, name.lower(), rule["labels"]["severity"]) for name, rule in RULES.items()]


def anchors() -> list[str]:
    return [name.lower() for name in re.findall(r"(?m)^## (\w+)$", RUNBOOKS.read_text())]


def test_unproven_means_the_same_as_on_the_dashboard() -> None:
    assert f'reason=~"{UNPROVEN}"' in RULES["MeshgateUnproven"]["expr"]

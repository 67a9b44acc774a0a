"""Tests how clocks and single numbers are judged, and probes that nothing can take."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.auth.key_admin import ensure_identity
from gateway.checkup.findings import Finding, Level, worst
from gateway.checkup.kafka import judge_clock, judge_topics
from gateway.checkup.parts import probe_path
from gateway.config import parse
from gateway.kafka.topics import TopicState


@pytest.mark.parametrize(
    ("ahead", "level", "words"),
    [(0.2, Level.OK, "0.20 s ahead of"), (-5.0, Level.WARN, "5.00 s behind"), (61.0, Level.FAIL, "61.00 s ahead of")],
)
def test_a_clock_is_judged_by_how_far_it_is_off(ahead: float, level: Level, words: str) -> None:
    finding = judge_clock(ahead)
    assert (finding.level, words in finding.text, bool(finding.remedy)) == (level, True, level > Level.OK)


@pytest.mark.parametrize(
    ("has", "remedy"), [(0, "meshgate topics grow"), (2, "meshgate topics grow"), (8, "set kafka.partitions to 8: ")]
)
def test_topics_that_do_not_fit_are_told_with_what_mends_them(has: int, remedy: str) -> None:
    """Partitions never shrink, so `topics grow` refuses where there are too many."""
    finding = judge_topics([TopicState("demo.raw", has, wanted=4, replication=1)])
    assert (finding.level, finding.remedy.startswith(remedy)) == (Level.FAIL, True)
    assert judge_topics([TopicState("demo.raw", 1, 4, 1)]).text == "demo.raw has 1 partition of 4"


def test_a_checkup_is_as_bad_as_its_worst_finding() -> None:
    findings = [Finding("a", Level.OK, ""), Finding("b", Level.FAIL, ""), Finding("c", Level.WARN, "")]
    assert worst(findings) is Level.FAIL
    assert worst([]) is Level.OK


def test_where_no_listener_takes_probes_the_path_cannot_be_tried(tmp_path: Path) -> None:
    ensure_identity(tmp_path / "keys.yaml")
    finding = probe_path(parse("mesh: demo", tmp_path / "meshgate.yaml", {}))
    assert (finding.level, "no udp:// listener" in finding.text) == (Level.WARN, True)


def test_a_probe_that_nobody_answers_is_lost(tmp_path: Path) -> None:
    ensure_identity(tmp_path / "keys.yaml")
    listener = "{name: devices, protocol: emm, listen: 'udp://127.0.0.1:1'}"
    finding = probe_path(parse(f"{{mesh: demo, listeners: [{listener}]}}", tmp_path / "meshgate.yaml", {}), 0.01)
    assert finding.level is Level.FAIL

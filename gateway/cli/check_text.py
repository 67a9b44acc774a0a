"""Prints the result of `meshgate check`: lines for people, JSON, and the forms of Nagios and Prometheus."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from gateway.checkup.findings import Finding, Level, worst
from gateway.cli.console import printable

COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
NAGIOS = {Level.OK: "OK", Level.WARN: "WARNING", Level.FAIL: "CRITICAL"}
NAGIOS_UNITS = {"seconds": "s", "bytes": "B"}
"""Units that the plugin guidelines know; a number of any other is without one."""


def as_line(finding: Finding) -> str:
    """Returns a line for people: level, what was looked at, what is so, and what to do."""
    level = click.style(f"{finding.level.word:<4}", fg=COLOURS[finding.level], bold=finding.level > Level.OK)
    remedy = f"  -> {finding.remedy}" if finding.remedy else ""
    return f"{level}  {finding.check}: {printable(finding.text)}{remedy}"


def as_document(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "level": finding.level.word}


def summary(findings: Sequence[Finding]) -> str:
    """Returns what the whole came to, in one line."""
    counts = {level: sum(finding.level is level for finding in findings) for level in Level}
    return ", ".join(f"{count} {level.word}" for level, count in counts.items() if count) or "nothing was looked at"


def as_json(findings: Sequence[Finding]) -> str:
    whole = {"status": worst(findings).word, "findings": [as_document(finding) for finding in findings]}
    return json.dumps(whole, ensure_ascii=False)


def as_nagios(findings: Sequence[Finding]) -> str:
    """Returns a plugin's output: a line of status with performance data, then a line for each thing to be done."""
    level = worst(findings)
    trouble = [finding for finding in findings if finding.level > Level.OK]
    headline = "; ".join(f"{finding.check}: {printable(finding.text)}" for finding in trouble[:1]) or summary(findings)
    numbers = " ".join(_performance(finding) for finding in findings if finding.value is not None)
    first = f"MESHGATE {NAGIOS[level]} - {headline.replace('|', '/')}" + (f" | {numbers}" if numbers else "")
    lines = (
        f"{NAGIOS[finding.level]}: {finding.check}: {printable(finding.text)} ({finding.remedy})" for finding in trouble
    )
    return "\n".join((first, *(line.replace("|", "/") for line in lines)))


def _performance(finding: Finding) -> str:
    name = finding.check.replace("'", "").replace("=", "")
    return f"'{name}'={finding.value:.15g}{NAGIOS_UNITS.get(finding.unit, '')}"


def as_prometheus(findings: Sequence[Finding]) -> str:
    """Returns an exposition, for the textfile collector of a node exporter."""
    levels: dict[str, Level] = {}
    for finding in findings:
        levels[finding.check] = max(finding.level, levels.get(finding.check, Level.OK))
    lines = [
        "# HELP meshgate_check_status What a check found: 0 ok, 1 warning, 2 critical.",
        "# TYPE meshgate_check_status gauge",
    ]
    lines += [f'meshgate_check_status{{check="{_escaped(check)}"}} {level}' for check, level in levels.items()]
    lines += ["# HELP meshgate_check_value What a check measured, in its unit.", "# TYPE meshgate_check_value gauge"]
    lines += [
        f'meshgate_check_value{{check="{_escaped(finding.check)}",unit="{finding.unit}"}} {finding.value:.15g}'
        for finding in findings
        if finding.value is not None and math.isfinite(finding.value)
    ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")

"""A run beside an earlier one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.bench.compare import compared, read
from gateway.bench.machine import Usage
from gateway.bench.report import text
from gateway.bench.workload import WorkError
from tests.unit.bench.notes import noted, on_time
from tests.unit.bench.runs import WORK, run_of

SLOW, FAST = on_time(range(50), 10.0), on_time(range(50), 5.0)


def usage(seconds: float) -> dict[str, Usage]:
    return {"edge": Usage(seconds, 1.0, 1.0, 1.0)}


def test_half_the_latency_is_a_ratio_of_a_half() -> None:
    ratios = compared(run_of(FAST), run_of(SLOW))["ratios"]
    assert (ratios["p50"], ratios["max"], ratios["achieved"]) == (0.5, 0.5, 1.0)


def test_costs_are_compared_part_by_part() -> None:
    found = compared(run_of(usage=usage(3.0)), run_of(usage=usage(2.0)))
    assert found["ratios"]["cpu edge"] == found["ratios"]["cpu total"] == 1.5


def test_a_part_that_was_not_there_has_no_ratio() -> None:
    assert "cpu edge" not in compared(run_of(usage=usage(3.0)), run_of())["ratios"]


def test_what_never_arrived_has_no_ratio() -> None:
    assert "p50" not in compared(run_of(noted()), run_of(FAST))["ratios"]
    assert "p50" not in compared(run_of(FAST), run_of(noted()))["ratios"]


def test_losses_are_shown_and_not_divided() -> None:
    found = compared(run_of(on_time(range(45))), run_of())
    assert found["lost"] == {"last": 0, "now": 5}


def test_other_work_is_named_and_so_is_nothing_else() -> None:
    last = run_of(work=replace(WORK, size=300, run="beef"))
    assert compared(run_of(), last)["differs"] == ["size 300 → 200"]


def test_the_text_shows_it_in_lines_of_its_own() -> None:
    found = run_of(FAST)
    found["compared"] = compared(found, run_of(SLOW, work=replace(WORK, size=300)))
    shown = [line for line in text(found).splitlines() if line.startswith("compared")]
    assert "p50 ×0.50" in shown[0]
    assert shown[1].endswith("other work: size 300 → 200")


def test_a_document_that_was_saved_is_read_again(tmp_path: Path) -> None:
    saved = tmp_path / "last.json"
    saved.write_text(json.dumps(run_of()))
    assert compared(run_of(), read(saved))["ratios"]["p50"] == 1.0


@pytest.mark.parametrize("content", ["", "no json", "[]", "{}", '{"work": {}}'])
def test_what_no_run_has_written_is_refused_by_name(tmp_path: Path, content: str) -> None:
    other = tmp_path / "other.json"
    other.write_text(content)
    with pytest.raises(WorkError) as refused:
        read(other)
    assert str(refused.value).startswith(f"--compare {other}")

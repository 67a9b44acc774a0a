"""The picture: well-formed, with every line it owes, and every point inside its frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from gateway.bench.compare import compared
from gateway.bench.plot import BOTTOM, HEIGHT, TOP, WIDTH, svg
from tests.unit.bench.notes import noted, on_time
from tests.unit.bench.runs import WORK, run_of

NAMESPACE = {"s": "http://www.w3.org/2000/svg"}


def drawn(found: dict[str, Any]) -> etree._Element:
    return etree.fromstring(svg(found).encode())


def points(line: etree._Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in str(line.get("points")).split())
    return [(float(x), float(y)) for x, y in pairs]


def lines(found: dict[str, Any]) -> list[list[tuple[float, float]]]:
    return [points(line) for line in drawn(found).iterfind("s:polyline", NAMESPACE)]


def words(found: dict[str, Any]) -> set[str]:
    return {str(one.text) for one in drawn(found).iterfind("s:text", NAMESPACE)}


UNEVEN = noted(*((index, index * 100.0 + 1.0 + index % 9 * 40.0) for index in range(50)))


def test_it_has_the_curve_and_three_lines_by_second() -> None:
    assert len(lines(run_of(UNEVEN))) == 4


def test_an_earlier_run_is_drawn_beside_it() -> None:
    found = run_of(UNEVEN)
    found["compared"] = compared(found, run_of(on_time(range(50), 3.0)))
    assert len(lines(found)) == 5
    assert {"now", "last"} <= words(found)


@pytest.mark.parametrize("found", [run_of(UNEVEN), run_of(), run_of(on_time(range(50), 0.0))])
def test_every_point_is_inside_the_frame(found: dict[str, Any]) -> None:
    for x, y in (point for line in lines(found) for point in line):
        assert 0 < x < WIDTH
        assert TOP <= y <= BOTTOM < HEIGHT


def test_a_greater_latency_stands_higher() -> None:
    """SVG counts from the top."""
    curve = lines(run_of(UNEVEN))[0]
    heights = [y for _, y in curve]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > heights[-1]


def test_a_run_of_which_nothing_arrived_is_a_picture_without_lines_in_it() -> None:
    assert all(not line for line in lines(run_of(noted())))


def test_its_title_says_what_was_measured() -> None:
    shown = words(run_of(UNEVEN, work=replace(WORK, origin="yamp", target="hsp", request=True)))
    assert any(word.startswith("yamp → hsp → yamp: 10/s offered") for word in shown)


def test_the_axis_of_the_tail_has_a_nine_a_decade() -> None:
    shown = words(run_of(UNEVEN))
    assert {"0 %", "90 %", "99 %", "max"} <= shown
    assert "99.999 %" not in shown

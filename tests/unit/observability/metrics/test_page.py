"""The page of metrics says what the exporters say."""

from __future__ import annotations

from pathlib import Path

from tests.unit.observability.metrics.told import families

PAGE = Path(__file__).parents[4] / "gateway" / "docs" / "metrics.md"
OF_HISTOGRAMS = {"le"}
COUNTER_ENDING = {"counter": "_total"}


def rows(part: str) -> list[str]:
    """Returns the rows as they must stand on the page."""
    told = []
    for family in families()[part]:
        if not family.name.startswith("meshgate_"):
            continue
        labels = {label for sample in family.samples for label in sample.labels} - OF_HISTOGRAMS - {"mesh", "edge"}
        name = family.name + COUNTER_ENDING.get(family.type, "")
        named = ", ".join(f"`{label}`" for label in sorted(labels))
        told.append(f"| `{name}` | {family.type} | {named} | {family.documentation} |")
    return sorted(told)


def rows_below(heading: str) -> list[str]:
    below = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in below.splitlines() if line.startswith("| `meshgate_")]


def test_the_page_says_what_edges_tell() -> None:
    assert rows_below("Edges") == rows("edge")


def test_the_page_says_what_the_router_tells() -> None:
    assert rows_below("Router") == rows("router")

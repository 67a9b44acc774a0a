"""Reads what a part says of itself, at its management address."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

ANSWER_SECONDS = 10.0


def samples(management: str) -> list[Sample]:
    with urllib.request.urlopen(f"http://{management}/metrics", timeout=ANSWER_SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [one for family in families for one in family.samples]


def total(told: Iterable[Sample], name: str, **labels: str) -> int:
    return sum(by(told, name, "", **labels).values())


def by(told: Iterable[Sample], name: str, label: str, **labels: str) -> Counter[str]:
    """Sums of a metric by one of its labels, over those that have the others."""
    sums: Counter[str] = Counter()
    for one in told:
        if one.name == f"meshgate_{name}" and labels.items() <= one.labels.items():
            sums[one.labels.get(label, "")] += int(one.value)
    return sums

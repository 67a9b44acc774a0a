"""PromQL in the one shape that all panels share: of the instances chosen above, counters only as rates.

A name stands without the product's prefix, and labels as PromQL writes them.

>>> of("in_flight_bytes")
'meshgate_in_flight_bytes{job=~"$job",instance=~"$instance"}'
>>> rate("frames_total", 'stage="decode"', by="outcome")
'sum by (outcome) (rate(meshgate_frames_total{job=~"$job",instance=~"$instance",stage="decode"}[$__rate_interval]))'
"""

from __future__ import annotations

PREFIX = "meshgate_"
CHOSEN = 'job=~"$job",instance=~"$instance"'
FOREIGN = ("process_", "jvm_")
"""Names that are not ours, but everybody's who has a process or a JVM."""


def of(name: str, labels: str = "") -> str:
    """A selector."""
    prefix = "" if name.startswith(FOREIGN) else PREFIX
    chosen = f"{CHOSEN},{labels}" if labels else CHOSEN
    return f"{prefix}{name}{{{chosen}}}"


def rate(name: str, labels: str = "", *, by: str = "") -> str:
    """Of a counter, a second."""
    return total(f"rate({of(name, labels)}[$__rate_interval])", by=by)


def total(expression: str, *, by: str = "") -> str:
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def greatest(name: str, labels: str = "", *, by: str = "") -> str:
    return f"max by ({by}) ({of(name, labels)})" if by else f"max({of(name, labels)})"


def quantile(share: float, name: str, labels: str = "", *, by: str = "") -> str:
    """Of a histogram; what happened since the scrape before the last."""
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', labels, by=f'le,{by}' if by else 'le')})"

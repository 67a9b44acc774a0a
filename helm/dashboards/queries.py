"""PromQL in the one shape that all panels share: of the meshes and instances chosen above, counters only as rates.

A name stands without the product's prefix, and labels as PromQL writes them.

>>> of("in_flight_bytes")
'meshgate_in_flight_bytes{mesh=~"$mesh",job=~"$job",instance=~"$instance"}'
>>> of("process_open_fds")
'process_open_fds{job=~"$job",instance=~"$instance"}'
>>> rate("duplicates_total", 'lane="0"')
'sum(rate(meshgate_duplicates_total{mesh=~"$mesh",job=~"$job",instance=~"$instance",lane="0"}[$__rate_interval]))'
"""

from __future__ import annotations

PREFIX = "meshgate_"
CHOSEN = 'job=~"$job",instance=~"$instance"'
OF_MESH = 'mesh=~"$mesh"'
FOREIGN = ("process_", "jvm_")
"""Names that are not ours, but everybody's who has a process or a JVM: no label says whose mesh they are of, so a query
takes those of which there is a `build_info` of that mesh."""


def of(name: str, labels: str = "") -> str:
    """A selector."""
    prefix, mesh = ("", "") if name.startswith(FOREIGN) else (PREFIX, OF_MESH)
    return f"{prefix}{name}{{{','.join(part for part in (mesh, CHOSEN, labels) if part)}}}"


def rate(name: str, labels: str = "", *, by: str = "") -> str:
    """Returns the rate of a counter, a second."""
    return total(f"rate({of(name, labels)}[$__rate_interval])", by=by)


def total(expression: str, *, by: str = "") -> str:
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def greatest(name: str, labels: str = "", *, by: str = "") -> str:
    return f"max by ({by}) ({of(name, labels)})" if by else f"max({of(name, labels)})"


def quantile(share: float, name: str, labels: str = "", *, by: str = "") -> str:
    """Returns the query of a histogram: what happened since the scrape before the last."""
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', labels, by=f'le,{by}' if by else 'le')})"

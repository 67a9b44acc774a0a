"""Finds the selectors of a query with the parser of Prometheus's own grammar."""

from __future__ import annotations

from dataclasses import dataclass

from promql_parser import Expr, MatrixSelector, VectorSelector, parse, walk

_VARIABLES = {"$__rate_interval": "4m", "$__range": "1h"}
"""Grafana's, which are durations."""


@dataclass(frozen=True, slots=True)
class Selector:
    """`within`: names of the nodes around it, the nearest last; a call by its function's name. `seconds`: of its range;
    None for an instant."""

    name: str
    matchers: frozenset[tuple[str, str]]
    within: tuple[str, ...]
    seconds: float | None

    @property
    def labels(self) -> set[str]:
        return {label for label, _ in self.matchers}


def selectors(expression: str) -> list[Selector]:
    """Raises ValueError where it is no PromQL."""
    for variable, duration in _VARIABLES.items():
        expression = expression.replace(variable, duration)
    found: list[Selector] = []
    around: list[Expr] = []

    def enter(node: Expr) -> None:
        if isinstance(node, VectorSelector):
            found.append(_selector(node, around))
        around.append(node)

    def leave(_: Expr) -> None:
        around.pop()

    walk(parse(expression), enter, leave)
    return found


def _selector(node: VectorSelector, around: list[Expr]) -> Selector:
    matchers = frozenset((one.name, one.value) for one in node.matchers.matchers)
    ranged = around[-1] if around and isinstance(around[-1], MatrixSelector) else None
    seconds = ranged.range.total_seconds() if ranged else None
    return Selector(node.name or "", matchers, tuple(_name(one) for one in around), seconds)


def _name(node: Expr) -> str:
    function = getattr(node, "func", None)
    return str(function.name) if function is not None else type(node).__name__

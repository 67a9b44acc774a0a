"""Reads Spark's optimized plan of a rule: what it lets in, and under which subject it goes out.

The optimizer pushes every condition that a filter, a join or a grouping puts on an event down to the table itself; so
what stands directly above the table is what an event must fulfil to matter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming_jobs.spark.events_table import TABLE

# pyspark logs each query that is refused, with both stacks; what is wrong is told in one line elsewhere.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

PLACEHOLDER = "x"
"""Stands for the part of a subject that is only known when the rule runs."""
ROW_BY_ROW = {"Project", "Filter"}
"""The operators that make each row of one row."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a rule: `sql` over `columns` of the table, which it calls `table`."""

    sql: str
    columns: frozenset[str]
    table: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One place where a rule reads the table. All its conditions must hold."""

    conditions: tuple[Condition, ...]


def parse_query(spark: SparkSession, sql: str) -> None:
    """Raises PySparkException for what is no query; nothing runs, as it would with `spark.sql("DROP …")`."""
    spark._jsparkSession.sessionState().sqlParser().parseQuery(sql)  # noqa: SLF001 - the parser has no other door


def optimized_plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - no other door


def check_stream(spark: SparkSession, rows: DataFrame) -> None:
    """Raises PySparkException where a stream cannot do what a batch can: what a start of the query would say."""
    jvm: Any = spark._jvm  # noqa: SLF001 - no other door
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    analyzed = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(analyzed, append)


def is_row_by_row(rows: DataFrame) -> bool:
    """True if each row follows from one row of the table alone, and always in the same way."""
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - no other door
    analyzed = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    asks_for_time = analyzed.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE())
    return analyzed.deterministic() and not asks_for_time and set(_kinds(optimized_plan(rows))) <= ROW_BY_ROW


def _kinds(plan: Any) -> Iterator[str]:
    """Yields the operators of a plan, without the leaves, where it reads."""
    children = _items(plan.children())
    if children:
        yield _kind(plan)
    for child in children:
        yield from _kinds(child)


def readings(plan: Any) -> list[Reading]:
    """Returns every place where the table is read."""
    return [Reading(tuple(conditions)) for conditions in _leaves(plan, [])]


def _leaves(plan: Any, above: list[Condition]) -> Iterator[list[Condition]]:
    if _kind(plan) == "Filter":
        above = [*above, *_conjuncts(plan.condition())]
        yield from _leaves(plan.child(), above)
        return
    children = _items(plan.children())
    if not children:
        yield above
    for child in children:
        yield from _leaves(child, [])


def _conjuncts(condition: Any) -> Iterator[Condition]:
    if _kind(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
        return
    attributes = _items(condition.references().toSeq())
    called = [str(attribute.qualifier().last()) for attribute in attributes if attribute.qualifier().nonEmpty()]
    columns = frozenset(attribute.name() for attribute in attributes)
    yield Condition(condition.sql(), columns, called[0] if called else TABLE)


def subjects(plan: Any) -> list[str | None]:
    """Returns what the column `subject` of the result can be.

    A text has `PLACEHOLDER` in it for what varies. None stands for a subject that cannot be told.
    """
    for attribute in _items(plan.output()):
        if attribute.name() == "subject":
            return list(_values(plan, attribute.exprId()))
    return [None]


def _values(plan: Any, expression_id: Any) -> Iterator[str | None]:
    """Yields the values of the column with this id, followed down to where it is made."""
    kind = _kind(plan)
    if kind in ("Project", "Aggregate"):
        made = plan.projectList() if kind == "Project" else plan.aggregateExpressions()
        for named in _items(made):
            if named.exprId().equals(expression_id):
                yield from _of_named(plan, named)
                return
    if kind == "Union":
        place = [item.exprId().equals(expression_id) for item in _items(plan.output())].index(True)
        for child in _items(plan.children()):
            yield from _values(child, _items(child.output())[place].exprId())
        return
    for child in _items(plan.children()):
        if any(item.exprId().equals(expression_id) for item in _items(child.output())):
            yield from _values(child, expression_id)
            return
    yield None


def _of_named(plan: Any, named: Any) -> Iterator[str | None]:
    if _kind(named) != "Alias":
        yield from _values(plan.child(), named.exprId())
        return
    made = named.child()
    if _kind(made) == "AttributeReference":
        yield from _values(plan.child(), made.exprId())
    else:
        yield _text(made)


def _text(expression: Any) -> str | None:
    if expression.foldable():
        value = expression.eval(None)
        return None if value is None else str(value.toString())
    if _kind(expression) == "Concat":
        parts = (_text(child) if child.foldable() else PLACEHOLDER for child in _items(expression.children()))
        return "".join(part or "" for part in parts)
    return None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.length())]

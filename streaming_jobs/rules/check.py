"""Compiles rules without running them: what is wrong is told before anything starts.

A rule must be a query, name columns that exist, give the columns an event is made of, be possible as a stream, and not
feed itself, alone or through others.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, StringType

from gateway.config.settings import RuleSettings
from gateway.core.event import Auth, Kind
from gateway.core.subjects import is_control
from gateway.records.raw_log.control_frames import MESH
from streaming_jobs.routing.rule_event import MAX_HOPS
from streaming_jobs.rules.plan_reading import (
    Reading,
    check_stream,
    is_row_by_row,
    optimized_plan,
    parse_query,
    readings,
    subjects,
)
from streaming_jobs.rules.rule_graph import depths, ring_through
from streaming_jobs.spark.events_table import SCHEMA, TABLE

OUTPUTS: dict[str, tuple[type[DataType], ...]] = {
    "subject": (StringType,),
    "body": (DataType,),
    "content_type": (StringType,),
    "origin": (StringType,),
    "hops": (IntegerType, LongType),
}
"""The columns that a row may give, and the types they may have. Only the subject must be there."""
LATE_SECONDS = 10
"""An event may come so much later than others and still count in a window: what the router needs, with room."""
_POSITION = re.compile(r"line (\d+),? pos (\d+)")
_DRESSING = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*|\s*SQLSTATE:.*", re.DOTALL)


class RuleFault(Exception):
    """The reason why a rule cannot run."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled rule. `subjects` are what it may publish under; None for one that cannot be told."""

    name: str
    subjects: tuple[str | None, ...]
    readings: tuple[Reading, ...]
    is_row_by_row: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    `faults` are by the rule's place in the configuration. `depths` are how many rules lie behind what each finds.
    `row_by_row` are the rules that look at each event by itself.
    """

    faults: dict[int, str]
    depths: dict[str, int]
    row_by_row: frozenset[str] = frozenset()


def check_rules(spark: SparkSession, rules: Sequence[RuleSettings]) -> Checked:
    faults: dict[int, str] = {}
    compiled: list[Compiled] = []
    with empty_tables(spark) as (table, stream):
        for place, rule in enumerate(rules):
            try:
                compiled.append(compile_rule(spark, rule, table, stream))
            except RuleFault as fault:
                faults[place] = str(fault)
        feeds = {rule.name: _fed_by(spark, rule, compiled) for rule in compiled}
    for place, rule in enumerate(rules):
        if rule.name in feeds and (ring := ring_through(rule.name, feeds)):
            faults[place] = _ring_text(ring)
    if faults:
        return Checked(faults, {})
    depth_of = depths(feeds)
    for place, rule in enumerate(rules):
        if depth_of[rule.name] > MAX_HOPS:
            faults[place] = f"more than {MAX_HOPS} rules would lie behind what it finds"
    return Checked(faults, depth_of, frozenset(rule.name for rule in compiled if rule.is_row_by_row))


def _ring_text(ring: list[str]) -> str:
    circle = "itself" if len(ring) == 2 else " → ".join(ring)
    return (
        f"would feed {circle} without end: look only for subjects it does not publish, or for what peers sent"
        " (headers['rule'] IS NULL)"
    )


@contextmanager
def empty_tables(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yields the table without rows, as a batch and as a stream: enough for everything except results."""
    with tempfile.TemporaryDirectory(prefix="meshgate-rules-") as folder:
        stream = spark.readStream.schema(SCHEMA).json(folder)
        yield spark.read.schema(SCHEMA).json(folder), stream.withWatermark("received_at", f"{LATE_SECONDS} seconds")


def compile_rule(spark: SparkSession, rule: RuleSettings, table: DataFrame, stream: DataFrame) -> Compiled:
    """Raises RuleFault."""
    try:
        parse_query(spark, rule.sql)
        table.createOrReplaceTempView(TABLE)
        result = spark.sql(rule.sql)
        _check_columns(result)
        plan = optimized_plan(result)
        compiled = Compiled(rule.name, tuple(subjects(plan)), tuple(readings(plan)), is_row_by_row(result))
        stream.createOrReplaceTempView(TABLE)
        streaming = spark.sql(rule.sql)
        if not streaming.isStreaming:
            raise RuleFault(f"reads nothing from the table {TABLE}")
        check_stream(spark, streaming)
    except PySparkException as failed:
        raise RuleFault(explain(failed)) from None
    if any(subject is not None and is_control(subject) for subject in compiled.subjects):
        raise RuleFault("may not publish under `mesh.`: that is the mesh's own")
    return compiled


def _check_columns(result: DataFrame) -> None:
    names = [field.name for field in result.schema]
    if unknown := sorted(set(names) - OUTPUTS.keys()):
        raise RuleFault(f"gives {', '.join(unknown)}: a rule gives {', '.join(OUTPUTS)}, and no other columns")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RuleFault(f"gives {', '.join(twice)} twice")
    if "subject" not in names:
        raise RuleFault("gives no subject: name the new event's with `AS subject`")
    for field in result.schema:
        if not isinstance(field.dataType, OUTPUTS[field.name]):
            raise RuleFault(f"{field.name} is {field.dataType.simpleString()}, and cannot be that")


def explain(failed: PySparkException) -> str:
    """Returns Spark's message in one line: without its classes, its states and the plan."""
    message = str(failed)
    if failed.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        return f"the one table is {TABLE}: there is no {(failed.getMessageParameters() or {}).get('relationName')}"
    if failed.getCondition() == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION":
        return "a stream has no end to count up to: add window(received_at, '1 minute') to GROUP BY"
    text = " ".join(_DRESSING.sub("", message.strip().split("\n== SQL ==")[0]).split())
    at = _POSITION.search(message)
    return f"{text} (line {at[1]}, column {int(at[2]) + 1} of the SQL)" if at else text


# -- feeding -------------------------------------------------------------------------------------------------------


def _fed_by(spark: SparkSession, source: Compiled, rules: Sequence[Compiled]) -> list[str]:
    """Returns the rules that may see what this one finds."""
    return [
        rule.name
        for rule in rules
        if any(
            _may_see(spark, source.name, subject, reading) for subject in source.subjects for reading in rule.readings
        )
    ]


def _may_see(spark: SparkSession, rule: str, subject: str | None, reading: Reading) -> bool:
    """Returns True if an event of a rule can pass the conditions. What is not known of it may be anything."""
    known_values = _known_of(rule, subject)
    decided = [
        condition
        for condition in reading.conditions
        if condition.columns <= known_values.keys() and "origin" not in condition.sql
    ]
    if not decided:
        return True
    holds = " AND ".join(f"coalesce({condition.sql}, false)" for condition in decided)
    columns = ", ".join(f"{value} AS {name}" for name, value in known_values.items())
    row = spark.sql(f"SELECT {holds} AS holds FROM (SELECT {columns}) AS {decided[0].table}")  # noqa: S608
    return bool(row.collect()[0].holds)


def _known_of(rule: str, subject: str | None) -> dict[str, str]:
    """Returns what is certain of any event of a rule, as SQL (see `rule_event`). Its node, body and time are not."""
    nothing = ("listener", "edge", "session", "peer", "message_id", "correlation", "key_id")
    known_values = {
        **dict.fromkeys(nothing, "''"),
        "kind": _literal(Kind.EVENT.value),
        "protocol": _literal(MESH),
        "headers": f"map('rule', {_literal(rule)}, 'hops', '1')",
        "urgent": "false",
        "sent_at": "CAST(NULL AS TIMESTAMP)",
        "auth": _literal(Auth.NONE.value),
    }
    return known_values if subject is None else {**known_values, "subject": _literal(subject)}


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

"""Rules over recorded events, as a batch: each window closes, so all that a stream would ever find is found at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from gateway.config.settings import RuleSettings
from gateway.records.raw_log.control_frames import RuleEvent
from streaming_jobs.rules.columns import as_event_columns
from streaming_jobs.rules.recorded import Row
from streaming_jobs.rules.rule_output import rule_events
from streaming_jobs.spark.events_table import SCHEMA, TABLE


def try_rules(spark: SparkSession, rules: Sequence[RuleSettings], recorded: Sequence[Row]) -> Iterator[RuleEvent]:
    """Yields what each rule finds, in the order of the rules. A rule does not see what others find."""
    spark.createDataFrame(list(recorded), SCHEMA).createOrReplaceTempView(TABLE)
    for rule in rules:
        rows = as_event_columns(spark.sql(rule.sql)).collect()
        yield from rule_events(rule.name, 1, 0, (row.asDict() for row in rows))

"""`meshgate sql`: Spark SQL over the events."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.bodies import body_text
from gateway.cli.console import CommandError, Output, json_text, note, show_line, show_table
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, read_config
from gateway.cli.signals import stop_on_signals
from gateway.cli.texts import utf8
from gateway.cli.times import from_time
from gateway.kafka.topics import connect_admin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.config import Config

MOST_ROWS = 10_000
"""The rows of a table for people; programs read as many as there are."""
TRIGGER = "1 second"
WAIT_SECONDS = 0.5


@click.command("sql")
@click.argument("query", type=utf8)
@click.option(
    "--from",
    "start",
    type=from_time,
    metavar="TIME",
    help="RFC 3339, or relative (-5m).  [default: all; with --follow: now]",
)
@click.option("--follow", is_flag=True, help="Then show new rows as they are found, until Ctrl-C.")
@click.option("-n", "--limit", type=Whole(min=1), help="End after COUNT rows.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[2]]")
@common_options
def command(
    query: str,
    start: datetime | None,
    follow: bool,
    limit: int | None,
    master: str | None,
    config_file: str | None,
    output: Output,
) -> None:
    """Ask the table `events`, which has a row for each accepted event.

    \b
    id kind subject protocol listener edge session peer node message_id correlation content_type
    body text headers urgent sent_at received_at auth key_id
    """
    config = read_config(config_file)
    started_at = time.time() if follow else None  # what is published while Spark starts is followed too
    since = started_at if start is None else start.timestamp()
    since_ms = None if since is None else int(since * 1000)
    connect_admin(config)  # said at once, where Spark would try for a minute
    with _spark(config, master) as spark:
        if follow:
            _follow(spark, config, query, since_ms, limit, output)
        else:
            _ask(spark, config, query, since_ms, limit, output)


@contextmanager
def _spark(config: Config, master: str | None) -> Iterator[SparkSession]:
    from pyspark.errors import PySparkException

    from streaming_jobs.rules.check import explain
    from streaming_jobs.spark.events_table import SETTINGS
    from streaming_jobs.spark.session import BRIEF_JVM, brief, start_spark

    note("starting Spark")
    spark = start_spark(f"meshgate-{config.mesh}-sql", master or "local[2]", SETTINGS, jvm_options=BRIEF_JVM)
    with brief(spark):
        try:
            yield spark
        except PySparkException as failed:
            raise CommandError(explain(failed)) from None


def _ask(
    spark: SparkSession, config: Config, query: str, since_ms: int | None, limit: int | None, output: Output
) -> None:
    from streaming_jobs.spark.events_table import TABLE, read_events

    read_events(spark, config, since_ms=since_ms).createOrReplaceTempView(TABLE)
    result = spark.sql(query)
    if output is Output.JSON:
        for row in (result.limit(limit) if limit else result).toLocalIterator():
            show_line(as_json(row.asDict(recursive=True)), output, "")
        return
    rows = result.limit(min(limit or MOST_ROWS, MOST_ROWS)).collect()
    show_table([as_cells(row.asDict(recursive=True)) for row in rows], result.columns, output)
    if len(rows) == MOST_ROWS:
        note(f"the first {MOST_ROWS} rows; --output json gives all")


def _follow(
    spark: SparkSession, config: Config, query: str, since_ms: int | None, limit: int | None, output: Output
) -> None:
    from streaming_jobs.rules.check import LATE_SECONDS
    from streaming_jobs.spark.events_table import TABLE, follow_events

    events = follow_events(spark, config, since_ms=since_ms)
    events.withWatermark("received_at", f"{LATE_SECONDS} seconds").createOrReplaceTempView(TABLE)
    result = spark.sql(query)
    shown = ShownTable(limit, output)
    stream = result.writeStream.outputMode(_output_mode(spark, result)).foreachBatch(shown.batch)
    started = stream.trigger(processingTime=TRIGGER).start()
    note(f"following {config.topic('events')}")
    stop_on_signals(shown.done.set)
    while not shown.done.wait(WAIT_SECONDS) and started.isActive:
        pass
    if (failed := started.exception()) is not None:
        raise failed
    started.stop()


def _output_mode(spark: SparkSession, result: DataFrame) -> str:
    """A count without windows never ends: its rows come again as they change."""
    from pyspark.errors import PySparkException

    from streaming_jobs.rules.plan_reading import check_stream

    try:
        check_stream(spark, result)
    except PySparkException:
        return "update"
    return "append"


class ShownTable:
    """Rows as each batch brings them."""

    def __init__(self, limit: int | None, output: Output) -> None:
        self._remaining = limit
        self._output = output
        self.done = threading.Event()

    def batch(self, rows: DataFrame, _number: int) -> None:
        for row in rows.toLocalIterator():
            if self._remaining == 0:
                break
            fields = row.asDict(recursive=True)
            show_line(as_json(fields), self._output, "  ".join(map(str, as_cells(fields).values())))
            self._remaining = None if self._remaining is None else self._remaining - 1
        if self._remaining == 0:
            self.done.set()


def as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row for JSON: bytes become text or else base64, and all other values stay as they are."""
    return {name: _plain(value) for name, value in row.items()}


def as_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cell(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='microseconds')}Z"
    if isinstance(value, Mapping):
        return as_json(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _cell(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return body_text(bytes(value))
    if isinstance(value, Mapping | list | tuple):
        return json_text(_plain(value))
    return _plain(value)

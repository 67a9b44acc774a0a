"""`meshgate tap`: live frames as they pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

import click
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from gateway.cli.console import Output, UnavailableError, json_text, note, printable
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, read_config
from gateway.cli.protocol_option import protocol_option
from gateway.cli.texts import pattern
from gateway.cli.times import from_time
from gateway.config import Config
from gateway.core.reasons import Reason
from gateway.core.subjects import tokens
from gateway.inspect.live.rows import FILTERS, ROWS, Row, RowFilter, as_hex, as_json, as_text, rows_of
from gateway.inspect.live.topic_sampler import consumer_of
from gateway.kafka.client_logs import quiet_clients
from gateway.kafka.records import record_of

POLL_SECONDS = 0.5
SILENT_SECONDS = 5.0
"""Kafka is asked whether it is there after so long without a record."""
FETCH_BYTES = 1024 * 1024
"""Fetched of a partition at a time: here everything is wanted."""


@click.command("tap")
@click.option("--at", type=click.Choice(list(ROWS)), default="events", show_default=True, help="The topic to look at.")
@protocol_option("Only frames of this protocol.")
@click.option("--node", default="", metavar="NODE", help="Show only frames of this node.")
@click.option("--message-id", default="", metavar="ID", help="Show only events to which their sender gave this id.")
@click.option(
    "--subject",
    type=pattern,
    metavar="PATTERN",
    callback=lambda _context, _option, text: ".".join(tokens(text)) if text else "",
    help="Show only subjects that match PATTERN.",
)
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in Reason]),
    metavar="SLUG",
    help="Show only frames that were refused for this reason.",
)
@click.option("-n", "--limit", type=Whole(min=1), help="End after COUNT frames.")
@click.option("--from", "start", type=from_time, metavar="TIME", help="RFC 3339, or relative (-5m).  [default: now]")
@click.option("--format", "form", type=click.Choice(["text", "json", "hex"]), help="[default: as --output]")
@common_options
def command(
    config_file: str | None,
    output: Output,
    at: str,
    limit: int | None,
    start: datetime | None,
    form: str | None,
    **filters: str | None,
) -> None:
    """Show frames as they pass through the mesh, without disturbing it.

    \b
    raw       as received, before anybody has judged them
    events    what was accepted
    rejected  what was refused, and why
    egress    what goes out, to whom
    """
    chosen = {name: value for name, value in filters.items() if value}
    if others := sorted(chosen.keys() - FILTERS[at]):
        expected = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(FILTERS[at]))
        note(f"--{others[0].replace('_', '-')} fits nothing at {at}: what is there can be chosen by {expected}")
    rows = tap(read_config(config_file), at, start, RowFilter(**chosen))
    for count, row in enumerate(rows, start=1):
        click.echo(line_of(row, form or output.value))
        if count == limit:
            return


def line_of(row: Row, form: str) -> str:
    if form == "json":
        return json_text(as_json(row))
    if form == "hex":
        return "\n".join(printable(line) for line in as_hex(row).splitlines())
    return printable(as_text(row))


def tap(config: Config, at: str, start: datetime | None, chosen: RowFilter) -> Iterator[Row]:
    """Rows as they come, without end. Says once that Kafka has gone, and once that it is back."""
    topic = f"{config.mesh}.{at}"
    with quiet_clients(), consumer_of(config, max_partition_fetch_bytes=FETCH_BYTES) as consumer:
        _place(consumer, topic, start)
        note(f"tapping {topic}")
        watch = KafkaWatch(config.kafka.bootstrap_servers, time.monotonic)
        while True:
            polled = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
            watch.look(bool(polled), partial(_answers, consumer))
            for records in polled.values():
                for record in records:
                    yield from rows_of(at, record_of(record), chosen)


class KafkaWatch:
    """Notes when Kafka goes away and when it comes back: a consumer waits for it without a word."""

    def __init__(self, servers: str, clock: Callable[[], float]) -> None:
        self._servers = servers
        self._clock = clock
        self._heard_at = clock()
        self._is_away = False

    def look(self, has_records: bool, answers: Callable[[], bool]) -> None:
        """Asks Kafka where nothing has come for a while."""
        if not has_records and self._clock() - self._heard_at < SILENT_SECONDS:
            return
        is_away = not has_records and not answers()
        if is_away != self._is_away:
            note(f"kafka {self._servers} " + ("does not answer: waiting for it" if is_away else "answers again"))
        self._is_away, self._heard_at = is_away, self._clock()


def _answers(consumer: KafkaConsumer) -> bool:
    try:
        consumer.end_offsets(consumer.assignment(), timeout_ms=int(SILENT_SECONDS * 1000))
    except KafkaError:
        return False
    return True


def _place(consumer: KafkaConsumer, topic: str, start: datetime | None) -> None:
    numbers = consumer.partitions_for_topic(topic)
    if not numbers:
        raise UnavailableError(f"there is no topic {topic}: has this mesh run yet?")
    partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    places = ends
    if start is not None:
        at = consumer.offsets_for_times({partition: int(start.timestamp() * 1000) for partition in partitions})
        places = {partition: at[partition].offset if at.get(partition) else ends[partition] for partition in partitions}
    for partition, offset in places.items():
        consumer.seek(partition, offset)

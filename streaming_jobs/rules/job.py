"""Runs the rules: a streaming query for each, all in one Spark application that the router knows nothing of.

A rule that is changed, new or gone touches no other. A rule whose query fails is started again after a while and the
others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.config import Config
from gateway.config.settings import RuleSettings
from gateway.config.watch import ConfigWatch, Reloaded
from gateway.core.yaml_files.faults import ConfigError
from gateway.kafka.topics import ensure_topics
from streaming_jobs.rules.check import check_rules
from streaming_jobs.rules.columns import as_event_columns
from streaming_jobs.rules.events_stream import live_events
from streaming_jobs.rules.faults import faults_of
from streaming_jobs.rules.output_writer import FindingsWriter
from streaming_jobs.rules.realtime import FindingPacker, realtime_writer
from streaming_jobs.spark.events_table import SETTINGS, TABLE
from streaming_jobs.spark.session import start_spark, stop_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

TRIGGER = "500 milliseconds"
"""How often a rule that needs batches looks for events. Without a pause it would ask Kafka 100 times a second."""
TASK_SLOTS = 32
"""A slot is a thread of the JVM that sleeps until it is needed."""
BATCH_SLOTS = 2
"""Slots that rules in real time leave to the others."""
WATCH_SECONDS = 1.0
RETRY_SECONDS = (1.0, 5.0, 30.0)
# Windows must close though nothing more comes in: a batch without data moves their end on.
STREAMING = {"spark.sql.streaming.noDataMicroBatches.enabled": "true"}


@dataclass(slots=True)
class Running:
    """A rule and its query. `failures`: in a row."""

    rule: RuleSettings
    depth: int
    is_realtime: bool
    query: StreamingQuery
    failures: int = 0
    start_again_at: float = field(default=0.0)


class RulesJob:
    """Runs the rules.

    `ready` is a file that exists while all rules run, for the supervisor. `begun` is called when they do.
    """

    def __init__(
        self,
        config: Config,
        master: str | None = None,
        ready: Path | None = None,
        on_running: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_running = on_running
        self._config = config
        self._master = master or f"local[{TASK_SLOTS}]"
        self._ready = ready
        self._watch = ConfigWatch(config, time.monotonic)
        self._running: dict[str, Running] = {}

    def reload(self) -> None:
        """Reads the configuration again. SIGHUP calls this."""
        self._watch.ask()

    def run(self, stop: threading.Event) -> None:
        """Runs the rules until `stop` is set. Raises ConfigError for rules that cannot run."""
        self._tell_ready(is_ready=False)
        ensure_topics(self._config)
        self._spark = start_spark(f"meshgate-{self._config.mesh}-rules", self._master, {**SETTINGS, **STREAMING})
        self._writer = FindingsWriter(self._config)
        try:
            self._take(self._config)
            self._tell_ready(is_ready=True)
            self._on_running()
            while not stop.wait(WATCH_SECONDS):
                self._reload()
                self._restart_failed(time.monotonic())
        finally:
            self._tell_ready(is_ready=False)
            for running in self._running.values():
                running.query.stop()
            self._writer.close()
            stop_spark(self._spark)

    def _tell_ready(self, *, is_ready: bool) -> None:
        if self._ready is not None and is_ready:
            self._ready.touch()
        elif self._ready is not None:
            self._ready.unlink(missing_ok=True)

    # -- the set of rules ------------------------------------------------------------------------------------

    def _reload(self) -> None:
        change = self._watch.poll()
        if change is None:
            return
        if not isinstance(change, Reloaded):
            log.warning("%s", change)
            return
        try:
            self._take(change.config)
        except ConfigError as faulty:
            log.warning("rules not reloaded: %s", faulty)

    def _take(self, config: Config) -> None:
        """Takes over the rules, if all of them are good."""
        checked = check_rules(self._spark, config.rules)
        if checked.faults:
            raise ConfigError(faults_of(config, checked.faults))
        configured = {rule.name: rule for rule in config.rules}
        self._stop_unwanted(configured, checked.depths)
        for name, rule in configured.items():
            if name not in self._running:
                is_realtime = name in checked.row_by_row and self._has_slots()
                query = self._start(rule, checked.depths[name], is_realtime=is_realtime)
                self._running[name] = Running(rule, checked.depths[name], is_realtime, query)
                log.info("rule %s runs %s", name, "in real time" if is_realtime else "in batches")

    def _stop_unwanted(self, configured: Mapping[str, RuleSettings], depths: Mapping[str, int]) -> None:
        for name, running in list(self._running.items()):
            if configured.get(name) != running.rule or depths[name] != running.depth:
                running.query.stop()
                del self._running[name]
                log.info("rule %s has ended", name)

    # -- queries ---------------------------------------------------------------------------------------------

    def _has_slots(self) -> bool:
        """True if another rule can run in real time, where it holds a slot for each partition of `events`."""
        in_real_time = 1 + sum(running.is_realtime for running in self._running.values())
        slots = self._spark.sparkContext.defaultParallelism - BATCH_SLOTS
        return in_real_time * self._config.kafka.topic("events").partitions <= slots

    def _start(self, rule: RuleSettings, depth: int, *, is_realtime: bool) -> StreamingQuery:
        if is_realtime:
            writer = realtime_writer(self._spark, self._config, FindingPacker(rule.name, depth), rule.sql)
        else:
            writer = self._batch_writer(rule, depth)
        checkpoint = checkpoint_of(self._config, rule, is_realtime=is_realtime)
        query: StreamingQuery = (
            writer.queryName(f"rule-{rule.name}").option("checkpointLocation", str(checkpoint)).start()
        )
        return query

    def _batch_writer(self, rule: RuleSettings, depth: int) -> DataStreamWriter:
        live_events(self._spark, self._config, time.time_ns() // 1_000_000).createOrReplaceTempView(TABLE)
        result = as_event_columns(self._spark.sql(rule.sql))

        def write(rows: DataFrame, batch: int) -> None:
            self._writer.write(rule.name, depth, batch, rows.toLocalIterator())

        return result.writeStream.outputMode("append").foreachBatch(write).trigger(processingTime=TRIGGER)

    def _restart_failed(self, now: float) -> None:
        for name, running in self._running.items():
            if running.query.isActive:
                continue
            if not running.start_again_at:
                pause = RETRY_SECONDS[min(running.failures, len(RETRY_SECONDS) - 1)]
                running.failures += 1
                running.start_again_at = now + pause
                log.error("rule %s failed and starts again in %.0f s: %s", name, pause, _why(running.query))
            elif now >= running.start_again_at:
                running.start_again_at = 0.0
                running.query = self._start(running.rule, running.depth, is_realtime=running.is_realtime)


def checkpoint_of(config: Config, rule: RuleSettings, *, is_realtime: bool) -> Path:
    """Returns the checkpoint's folder. Each text of a rule has its own: one query's state means nothing to another."""
    text = blake2b(rule.sql.encode(), digest_size=6).hexdigest() + ("-realtime" if is_realtime else "")
    return (Path(config.router.checkpoint).parent / "rules" / f"{rule.name}-{text}").resolve()


def _why(query: StreamingQuery) -> str:
    failed = query.exception()
    return " ".join(str(failed).split())[:300] if failed else "it was stopped"

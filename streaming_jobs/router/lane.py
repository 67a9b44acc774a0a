"""One lane: a streaming query over a fixed share of the raw partitions, under the trigger that suits its load.

Real time and micro-batch alternate on one checkpoint: the plan, the output mode and the state's format are the same. A
change stops the query, which ends the open batch without a commit; what it had put out comes again, and the edges drop
it by position.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gateway.config import Config
from gateway.errors import SetupError
from gateway.telemetry.lag import Lag
from streaming_jobs.router.checkpoint import (
    FAILURE_CHARACTERS,
    Offsets,
    committed_offsets,
    committed_watermark,
    gaps,
    in_short,
    last_commit,
)
from streaming_jobs.router.pace import Mode, Pace, Standstill
from streaming_jobs.router.restarts import Restarts
from streaming_jobs.router.steady_clock import SteadyClock
from streaming_jobs.router.sweep import Sweep, is_within_reach
from streaming_jobs.routing.dedup import Buckets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

REALTIME_BATCH = "60 seconds"
"""How long a real-time batch runs before it commits. Shorter ones stall more often at their boundary (up to 0.4 s),
longer ones repeat more after a crash; edges drop such repeats by position either way."""
BACKLOG_RECORDS = 5_000
"""More than this unread at a start, and the lane begins with a micro-batch that takes all of it at once, and commits:
a router that is killed again and again must not have more to do each time. Less, real time works off in a second or so,
and needs no change of the trigger after it."""

SETTLE_SECONDS = 30.0
"""A query that was just started plans, compiles and forks before its first record, and then works off what has piled up
meanwhile: that is no falling behind. On a busy machine it takes half of this."""

ACCEPT_LOSS = "look at the gap with `meshgate audit`, then go on over it with `--accept-loss`"


class RawLog(Protocol):
    """Where each raw partition begins and ends."""

    def begins(self) -> Offsets: ...
    def ends(self) -> Offsets: ...


class Lane:
    """`processed` tells, by raw partition, what the workers have done of it. `accepts_loss`: a gap between checkpoint
    and log is told and gone over, once; else it is refused."""

    def __init__(
        self, config: Config, spark: SparkSession, number: int, partitions: Sequence[int], checkpoint: Path,
        *, raw: RawLog, processed: Callable[[], Offsets], accepts_loss: bool = False,
    ) -> None:  # fmt: skip
        self._config = config
        self._spark = spark
        self._partitions = partitions
        self._checkpoint = checkpoint
        self._raw, self._processed = raw, processed
        self._accepts_loss = accepts_loss
        self.name = f"lane-{number}"
        self._sweep = Sweep(spark) if is_within_reach(spark) else None
        self._swept: int | None = None
        self._lag = Lag()
        self._standstill = Standstill()
        self._restarts = Restarts()
        self._pace = Pace(self._first_mode())
        self._seen = (time.monotonic(), 0, 0)
        self.query = self._start()

    @property
    def mode(self) -> Mode:
        return self._pace.mode

    def stop(self) -> None:
        self.query.stop()

    def failure(self) -> str | None:
        """Why the query has ended, if it has."""
        if self.query.isActive:
            return None
        failed = self.query.exception()
        return in_short(str(failed), self._checkpoint) if failed else "it was stopped"

    def start_again(self) -> bool:
        """From the last commit, after a failure; False if there have been too many. Waits where that helps.

        Raises KafkaError while Kafka is away: that counts as no failure of its own.
        """
        self._check_gaps()
        wait = self._restarts.failed(time.monotonic())
        if wait is None:
            return False
        time.sleep(wait)
        self.query = self._start()
        return True

    def follow(self) -> None:
        """Looked at about once a second: what was to be for the beginning only ends, and under `auto` the trigger
        changes when it must."""
        if self._accepts_loss and not self._gaps():
            self._accepts_loss = False
            log.warning("%s is over the gap: from here on none is accepted", self.name)
            self._restart()
        # Of a partition that has lost its oldest records, those count as done.
        processed = {**self._begins, **self._processed()}
        now, end, done = time.monotonic(), self._sum(self._raw.ends()), self._sum(processed)
        if self._standstill.observe(now, end, done):
            log.warning("%s has stood still for too long and begins anew", self.name)
            self._restart()
        elif self._config.router.mode == "auto" and self._has_settled(now):
            self._choose_trigger(now, end, done)

    def sweep(self) -> int | None:
        """The rows of the dedup's state, after a commit that was not seen yet, without those that it has done with."""
        commit = last_commit(self._checkpoint)
        if self._sweep is None or commit == self._swept or not self.query.isActive:
            return None
        self._swept = commit
        try:
            return self._sweep.run(self.query, committed_watermark(self._checkpoint))
        except Exception as failed:  # Spark may be giving the state up just now; the next commit is soon enough
            log.warning("%s: its state was not swept: %s", self.name, str(failed)[:FAILURE_CHARACTERS])
            return None

    def _choose_trigger(self, now: float, end: int, done: int) -> None:
        (then, end_then, done_then), self._seen = self._seen, (now, end, done)
        seconds = max(now - then, 0.001)
        gained = (done - done_then) - (end - end_then)
        left = (end - done) / gained * seconds if gained > 0 else float("inf")
        old = self._pace.mode
        if self._pace.choose(now, self._lag.observe(now, end, done), (done - done_then) / seconds, left) is not old:
            log.warning("%s goes from %s to %s", self.name, old, self._pace.mode)
            self._restart()

    def _has_settled(self, now: float) -> bool:
        """Before that, what was processed is what the query's predecessor had processed. The first micro-batch takes
        all there was at its start."""
        if self.mode is Mode.MICROBATCH:
            return self.query.lastProgress is not None
        return now - self._started_at >= SETTLE_SECONDS

    # -- starting ------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        self._standstill = Standstill()
        self.query.stop()
        self.query = self._start()

    def _check_gaps(self) -> None:
        """Spark would find some of them too, batch by batch, and say it at length."""
        found = self._gaps()
        if found and not self._accepts_loss:
            raise SetupError(f"{self.name} cannot go on where it was: {'; '.join(found)}. {ACCEPT_LOSS}")
        self._accepts_loss = bool(found)
        for gap in found:
            log.warning("%s goes on over a gap: %s", self.name, gap)

    def _gaps(self) -> list[str]:
        """A batch that was planned before, and never done, may end within one: then there are several to go over it."""
        return list(gaps(self._committed(), self._raw.begins(), self._raw.ends()))

    def _committed(self) -> Offsets:
        return committed_offsets(self._checkpoint)

    def _start(self) -> StreamingQuery:
        from streaming_jobs.router.plan import read_raw, route, sink_options
        from streaming_jobs.router.worker import Routes

        config = self._config
        self._check_gaps()
        self._begins = self._raw.begins()
        buckets = Buckets.of(config)
        clock = SteadyClock.begin(buckets.least_now(committed_watermark(self._checkpoint)))
        routed = route(
            read_raw(self._spark, config, self._partitions, accepts_loss=self._accepts_loss),
            # Not resolved: a mounted ConfigMap is a link that moves, and what it points to goes away.
            Routes(str(config.path), clock, str(config.state_dir)),
            buckets,
            evicts=self._sweep is None,
        )
        writer = routed.writeStream.format("kafka").outputMode("update").queryName(self.name)
        writer = writer.options(**sink_options(config))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        try:
            query: StreamingQuery = writer.trigger(**self._trigger()).start()
        except Exception as refused:  # Spark's own, in several forms
            raise SetupError(f"{self.name} cannot begin: {in_short(str(refused), self._checkpoint)}") from refused
        self._started_at = time.monotonic()
        self._swept = last_commit(self._checkpoint)
        return query

    def _trigger(self) -> dict[str, str]:
        if self.mode is Mode.MICROBATCH:
            return {"processingTime": "0 seconds"}
        return {"realTime": REALTIME_BATCH}

    def _first_mode(self) -> Mode:
        """What the configuration says; under `auto`, real time unless much has piled up."""
        if self._config.router.mode != "auto":
            return Mode(self._config.router.mode)
        committed, ends = self._committed(), self._raw.ends()
        backlog = sum(ends[one] - committed.get(one, 0) for one in self._partitions) if committed else 0
        return Mode.MICROBATCH if backlog > BACKLOG_RECORDS else Mode.REALTIME

    def _sum(self, offsets: Offsets) -> int:
        return sum(offsets.get(partition, 0) for partition in self._partitions)

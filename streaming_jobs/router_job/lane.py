"""A lane is a streaming query over one raw partition.

Each start begins at the last commit. What the query before it had put out since then comes again, and the edges drop
it by position. The worker begins with the ids of the last commit, which it has written itself (see `id_log`). If it
has not, they are read from Spark's state before the query starts.

Where much has piled up, one micro-batch takes all of it and commits, and real time begins after that. So a router that
is killed again and again does not have more to do each time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gateway.config import Config
from gateway.core.errors import SetupError
from streaming_jobs.router_job.checkpoint import Offsets, committed_offsets, gaps, in_short, last_commit
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.plan import call_once, read_raw, route
from streaming_jobs.router_job.plan_check import is_as_planned
from streaming_jobs.router_job.restarts import Restarts
from streaming_jobs.router_job.snapshot import ensure_snapshot, has_snapshot
from streaming_jobs.router_job.stall import StallDetector
from streaming_jobs.routing.known_ids import keep_seconds
from streaming_jobs.spark.kafka_sink import sink_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

REALTIME_BATCH_SECONDS = 180
"""The length of a real-time batch before it commits. At its end nothing passes for a fraction of a second. A longer one
repeats more after a crash; the edges drop it by position."""
STAGGERED_LANES = 60
"""So many lanes have batches of a length of their own, a second shorter for each. So their batches do not end together,
when all would plan at once on the same cores."""

BACKLOG_RECORDS = 5_000
"""More than this unread at a start is worked off first. Less takes real time a second or so."""

ACCEPT_LOSS = "look at the gap with `meshgate audit`, then go on over it with `--accept-loss`"


class RawLog(Protocol):
    """Knows where each raw partition begins and ends."""

    def begins(self) -> Offsets: ...
    def ends(self) -> Offsets: ...


class Beginning(NamedTuple):
    """How a lane begins.

    accepts_loss: a gap between checkpoint and log is logged and gone over, once; else it is refused.
    only_commits: it routes what is there now, commits it, and ends.
    gate: the first query routes nothing before it is open, and writes nothing into the checkpoint (see `hand_over`).
    """

    accepts_loss: bool = False
    only_commits: bool = False
    gate: Gate | None = None


class Lane:
    """A lane has the number of its raw partition.

    Args:
        processed: returns the next offset that the worker will take.
        beginning: raises SetupError with a gate, if the first query would have to write into the checkpoint before.
    """

    def __init__(
        self,
        config: Config,
        spark: SparkSession,
        number: int,
        *,
        raw: RawLog,
        processed: Callable[[], int],
        beginning: Beginning,
    ) -> None:
        self._config = config
        self._spark = spark
        self._number = number
        self._checkpoint = lane_folder(config, number)
        self._raw, self._processed = raw, processed
        self._accepts_loss = beginning.accepts_loss
        self._only_commits = beginning.only_commits
        self.name = lane_name(number)
        self.is_realtime = config.router.mode != "microbatch"
        self._stall = StallDetector()
        self._restarts = Restarts()
        self._is_plan_checked = False
        self._is_catching_up = False
        self.query = self._start(gate=beginning.gate)

    def stop(self) -> None:
        self.query.stop()

    def last_commit(self) -> int | None:
        """Returns the number of the last committed batch."""
        return last_commit(self._checkpoint)

    def failure(self) -> str | None:
        """Returns why the query has ended, if it has ended and should not have."""
        if self.query.isActive or self._has_caught_up():
            return None
        failed = self.query.exception()
        return in_short(str(failed), self._checkpoint) if failed else "it was stopped"

    def has_committed(self) -> bool:
        """True once a lane that only commits has done so. Raises SetupError if it cannot."""
        if (failure := self.failure()) is not None:
            raise SetupError(f"{self.name} ended before new partitions could begin: {failure}")
        return self._has_caught_up()

    def _has_caught_up(self) -> bool:
        return self._is_catching_up and not self.query.isActive and self.query.exception() is None

    def begin_real_time(self) -> None:
        """Starts the query in real time, if what had piled up is done."""
        if self._has_caught_up():
            self.query = self._start(catches_up=False)

    def start_again(self) -> bool:
        """Starts from the last commit, after a failure; False if there have been too many. Waits where that helps.

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
        """Ends `--accept-loss` once past the gap, and restarts a stalled query.

        It is called every few seconds.

        Raises SetupError if Spark runs the query otherwise than it must.
        """
        if not self._is_plan_checked and self.query.isActive:
            self._is_plan_checked = is_as_planned(self.query)
        if self._accepts_loss and not self._gaps():
            self._accepts_loss = False
            log.warning("%s has passed the gap: no further gap is accepted", self.name)
            self._restart()
        end, processed_to = self._raw.ends().get(self._number, 0), max(self._processed(), self._began)
        if self._stall.observe(time.monotonic(), end, processed_to):
            log.warning("%s has stood still for too long and begins anew", self.name)
            self._restart()

    # -- starting ------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        self._stall = StallDetector()
        self.query.stop()
        self.query = self._start()

    def _check_gaps(self) -> None:
        """Raises SetupError for a gap that is not accepted. Spark would find some of them too, and say it at length."""
        gap_texts = self._gaps()
        if gap_texts and not self._accepts_loss:
            raise SetupError(f"{self.name} cannot go on where it was: {'; '.join(gap_texts)}. {ACCEPT_LOSS}")
        self._accepts_loss = bool(gap_texts)
        for gap in gap_texts:
            log.warning("%s goes on over a gap: %s", self.name, gap)

    def _gaps(self) -> list[str]:
        """A batch that was planned before, and never done, may end within one: then there are several to go over it."""
        return list(gaps(committed_offsets(self._checkpoint), self._raw.begins(), self._raw.ends()))

    def _start(self, *, catches_up: bool = True, gate: Gate | None = None) -> StreamingQuery:
        from streaming_jobs.router_job.worker import RoutePass

        config = self._config
        self._check_gaps()
        committed = committed_offsets(self._checkpoint).get(self._number, 0)
        self._began = max(committed, self._raw.begins().get(self._number, 0))
        backlog = self._raw.ends().get(self._number, 0) - self._began
        piled_up = self.is_realtime and catches_up and backlog > BACKLOG_RECORDS
        self._is_catching_up = piled_up or self._only_commits
        if gate is not None and not self._writes_nothing():
            raise SetupError(f"{self.name} cannot begin while another router has its checkpoint")
        # In a worker of its own: the next query's must read the ids that were carried over meanwhile.
        worker = f"{self._number}-before" if self._only_commits else str(self._number)
        with ThreadPoolExecutor(max_workers=1) as beside:  # it waits: a query finds only a worker that is idle
            beside.submit(self._prepare_worker, worker)
            self._ensure_snapshot()
            routed = route(
                read_raw(self._spark, config, self._number, accepts_loss=self._accepts_loss),
                # Not resolved: a mounted ConfigMap is a link that moves, and what it points to goes away.
                RoutePass(str(config.path), str(config.state_dir), gate),
                worker,
                keep_seconds(config),
            )
        writer = routed.writeStream.format("kafka").outputMode("update").queryName(self.name)
        writer = writer.options(**sink_options(config))
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        try:
            query: StreamingQuery = writer.trigger(**self._trigger()).start()
        except Exception as refused:  # Spark's own, in several forms
            raise SetupError(f"{self.name} cannot begin: {in_short(str(refused), self._checkpoint)}") from refused
        self._is_plan_checked = False
        return query

    def _writes_nothing(self) -> bool:
        """Returns whether a query can begin without writing into a checkpoint that another router has. A lane without a
        commit is none of that router's."""
        if self._is_catching_up or self._accepts_loss or not self.is_realtime:
            return False
        router = Path(self._config.router.checkpoint)
        return self.last_commit() is None or has_snapshot(router, self._number, self._began, keep_seconds(self._config))

    def _ensure_snapshot(self) -> None:
        router = Path(self._config.router.checkpoint)
        try:
            ensure_snapshot(
                self._spark, self._checkpoint, router, self._number, self._began, keep_seconds(self._config)
            )
        except Exception as failed:  # Spark's own: a state that is damaged, or a file system that is full
            why = in_short(str(failed), self._checkpoint)
            raise SetupError(f"{self.name}: the ids of the last commit cannot be read: {why}") from failed

    def _prepare_worker(self, worker: str) -> None:
        """Starts the worker, which then reads its memory while Spark plans the query and loads its state.

        It is no fault if this fails: the first record makes the worker read. On executors nobody knows where it is.
        """
        from streaming_jobs.router_job.worker import PreparePass

        if not str(self._spark.sparkContext.master).startswith("local"):
            return
        prepare = PreparePass(str(self._config.path), str(self._config.state_dir), self._number, self._began)
        try:
            call_once(self._spark, prepare, worker)
        except Exception as failed:
            log.info("%s: its worker is not prepared: %s", self.name, type(failed).__name__)

    def _trigger(self) -> dict[str, Any]:
        if self._is_catching_up:
            log.info("%s takes what has piled up in one batch, and commits", self.name)
            return {"availableNow": True}
        if not self.is_realtime:
            return {"processingTime": "0 seconds"}
        return {"realTime": f"{REALTIME_BATCH_SECONDS - self._number % STAGGERED_LANES} seconds"}


def lane_folder(config: Config, number: int) -> Path:
    return (Path(config.router.checkpoint) / lane_name(number)).resolve()


def lane_name(number: int) -> str:
    return f"lane-{number}"

"""Runs the router: each raw partition has a lane, which is a streaming query."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kafka.errors import KafkaError
from prometheus_client import CollectorRegistry

from gateway.auth.trust_file import load as load_trust
from gateway.config import Config, ConfigWatch, Reloaded
from gateway.config.effective import redacted
from gateway.core.errors import SetupError
from gateway.core.quantity import quantity
from gateway.kafka.topics import ensure_topics
from gateway.observability.management import Checks, Management
from gateway.observability.spans import check_spans
from streaming_jobs.router_job.checkpoint import claim
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.hand_over import EarlyLanes, wait_for_standby
from streaming_jobs.router_job.jvm import JvmMetrics
from streaming_jobs.router_job.lane import BACKLOG_RECORDS, Beginning, Lane, lane_folder, lane_name
from streaming_jobs.router_job.lock import (
    BEGINS,
    LEAVES,
    READY,
    STANDS_BY,
    WAIT_SECONDS,
    CheckpointLock,
    JvmLock,
    is_held,
)
from streaming_jobs.router_job.metrics import RouterMetrics
from streaming_jobs.router_job.observer import Observer
from streaming_jobs.router_job.orderly_stop import end_batches
from streaming_jobs.router_job.probes import probe_sender
from streaming_jobs.router_job.progress import ProgressListener
from streaming_jobs.router_job.raw_bounds import RawBounds
from streaming_jobs.router_job.rehearsal import rehearse
from streaming_jobs.router_job.snapshot import (
    begun_lanes,
    carry_over_files,
    carry_over_state,
    forget_carried,
    must_carry_over,
)
from streaming_jobs.routing.known_ids import keep_seconds
from streaming_jobs.spark.exercise import archive_at_rest
from streaming_jobs.spark.self_test import self_test
from streaming_jobs.spark.session import lists_classes, start_spark, stop_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SPARE_SLOTS = 1
"""Slots for the short jobs beside the lanes: a lane that starts again reads its state while the others hold their
slots."""
ONE_TASK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.python.factory.idleWorkerMaxPoolSize": "1",
    "spark.task.maxFailures": "1",
}
"""A lane's state has one partition, and its worker waits for the next batch: no other is started for it. A task that
failed is not tried again, since its next worker would have no memory: the lane begins again at once."""
WATCH_SECONDS = 0.1
"""The interval at which the end of a query is noticed: it is part of every recovery."""
LOOK_SECONDS = 1.0
"""The interval at which Spark is asked about its queries, if it does not report by itself that one has ended."""
FOLLOW_SECONDS = 5.0
"""The interval at which Kafka is asked how far each lane is."""


def local_master(config: Config) -> str:
    """Returns the master for a router in one process: a task slot for each lane, which holds it all the time."""
    return f"local[{config.lanes + SPARE_SLOTS}]"


class Router:
    """Runs the router. `spark_settings` override its own.

    Args:
        accepts_loss: goes on over a gap between its checkpoint and the log.
        shares_management: the other router has the same management address: who has the lock answers there.
    """

    def __init__(
        self,
        config: Config,
        master: str | None = None,
        spark_settings: Mapping[str, str] | None = None,
        *,
        accepts_loss: bool = False,
        shares_management: bool = False,
    ) -> None:
        self._config = config
        self._shares_management = shares_management
        self._accepts_loss = accepts_loss
        self._master = master or local_master(config)
        self._has_spare_core = master is None
        self._spark_settings = dict(spark_settings or {})
        self._checkpoint = Path(config.router.checkpoint)
        self._settings = ConfigWatch(config, time.monotonic)
        self._raw = RawBounds(config)
        self._lanes: list[Lane] = []
        self._early: EarlyLanes | None = None
        self._has_ended = threading.Event()
        """Some query has ended since the queries were looked at last."""
        self._registry = CollectorRegistry()
        self._metrics = RouterMetrics(config, self._registry)
        self._jvm = JvmMetrics()
        self._registry.register(self._jvm)

    def run(self, stop: threading.Event, on_running: Callable[[], None] = lambda: None) -> None:
        """Serves until `stop` is set, and calls `on_running` when it begins to; raises what ended a query.

        It raises at once what is wrong with the trust store: a worker would find it with its first record, and Spark
        would tell it at length.
        """
        self._on_running = on_running
        check_spans(self._config)
        for warning in self._config.warnings():
            log.warning("%s", warning)
        load_trust(self._config.trust, entry=self._config.identity.key)
        with CheckpointLock(self._checkpoint) as lock, TemporaryDirectory(prefix="meshgate-gates-") as gates:
            if not self._config.router.standby:
                lock.take()
            spark = None if lock.take_if_free() else self._stand_by(lock, Path(gates), stop)
            if not stop.is_set():
                self._serve(lock, stop, spark)
            elif spark is not None:
                stop_spark(spark)

    def reload(self) -> None:
        """Reads the configuration again. SIGHUP calls this."""
        self._settings.ask()

    def _stand_by(self, lock: CheckpointLock, gates: Path, stop: threading.Event) -> SparkSession:
        """Does all that can be done beside the router that routes, and waits until that one is gone, or for `stop`.

        Once warm it counts as ready. It exports no metrics: what workers have counted is the other router's.
        """
        lacks = {"spark": "not warm yet"}
        checks = Checks(lacks.copy, lacks.copy, lambda: {"lock": "another router has it; this one stands by"})
        management = None if self._shares_management else self._management(CollectorRegistry(), checks)
        try:
            if management is not None:
                management.start()
            spark = self._start_spark()
            claim(self._checkpoint)
            ensure_topics(self._config)
            self._raw.ends()  # connects
            rehearse(spark, self._config, lambda: stop.is_set() or lock.take_if_free())
            with CheckpointLock(self._checkpoint, STANDS_BY) as sign:
                sign.wait(stop)
                lacks.clear()
                log.info("standing by: warm, and waiting for the checkpoint's lock")
                while not lock.take_if_free() and not stop.wait(WAIT_SECONDS):
                    if is_held(self._checkpoint, LEAVES):
                        self._begin_early(spark, lock, gates, stop)
                        break
                sign.release()
            with CheckpointLock(self._checkpoint, READY) as ready:
                if self._early is not None:
                    ready.wait(stop)
                lock.wait(stop)
            return spark
        finally:
            if management is not None:
                management.stop()

    def _begin_early(self, spark: SparkSession, lock: CheckpointLock, gates: Path, stop: threading.Event) -> None:
        """Begins the lanes behind gates, and waits until they are ready, or the router that leaves is gone.

        It is no fault if this fails: the lanes then start when that one is gone.
        """
        begins = JvmLock(spark, self._checkpoint, BEGINS)
        if not begins.take_if_free():
            return
        early = EarlyLanes(self._folders(), gates, begins)
        try:
            if is_held(self._checkpoint, LEAVES):
                early.start(partial(self._start_lane, spark))
                with probe_sender(self._config) as wake:
                    wake()  # a worker comes to its gate with a record
                while not (early.are_ready() or lock.take_if_free() or stop.wait(WAIT_SECONDS)):
                    pass
                self._early = early
        except Exception as failed:  # whatever Spark or a broker may say
            log.info("the lanes are not begun early: %s", failed)
        if self._early is None or stop.is_set():
            early.stop()

    def _management(self, registry: CollectorRegistry, checks: Checks) -> Management:
        return Management(
            self._config.router.management,
            registry,
            checks,
            config=lambda: redacted(self._settings.config),
            names=self._config.router.management_hosts,
        )

    def _serve(self, lock: CheckpointLock, stop: threading.Event, spark: SparkSession | None) -> None:
        management = self._management(self._registry, Checks(self._missing, partial(self._unready, stop)))
        management.start()
        observer: Observer | None = None
        try:
            claim(self._checkpoint)
            if spark is None:
                with ThreadPoolExecutor(max_workers=1) as beside:
                    topics = beside.submit(ensure_topics, self._config)
                    spark = self._start_spark()
                    log.info("Spark is up")
                    topics.result()
                    log.info("the topics are there")
            jvm_lock = JvmLock(spark, self._checkpoint)
            if not jvm_lock.wait(stop):
                return
            self._start_lanes(spark, stop)
            observer = Observer(self._config, self._metrics, spark, self._jvm)
            observer.start()
            log.info("router is ready: %s, %s", quantity(len(self._lanes), "lane"), self._config.router.mode)
            self._on_running()
            if self._has_spare_core and lists_classes():
                threading.Thread(target=archive_at_rest, args=(spark, stop), name="archive", daemon=True).start()
            self._watch(stop)
            if self._shares_management:
                management.stop()
            self._end_lanes(spark)
            jvm_lock.release()
            lock.release()  # nobody here writes any more: a standby need not wait until the JVM has ended
        finally:
            if observer is not None:
                observer.stop()
            for lane in self._lanes:
                lane.stop()
            management.stop()
            if spark is not None:
                stop_spark(spark)

    def _start_spark(self) -> SparkSession:
        settings = {**self._spark_settings, **ONE_TASK}
        spark = start_spark(f"meshgate-{self._config.mesh}", self._master, settings)
        self_test(spark)
        spark.streams.addListener(ProgressListener(self._metrics.committed, self._has_ended.set))
        return spark

    def _folders(self) -> list[Path]:
        return [lane_folder(self._config, number) for number in range(self._config.lanes)]

    def _start_lane(
        self, spark: SparkSession, number: int, gate: Gate | None = None, *, only_commits: bool = False
    ) -> Lane:
        return Lane(
            self._config,
            spark,
            number,
            raw=self._raw,
            processed=partial(self._metrics.processed, number),
            beginning=Beginning(self._accepts_loss, only_commits, gate),
        )

    def _start_lanes(self, spark: SparkSession, stop: threading.Event) -> None:
        folders = self._folders()
        forget_carried(self._checkpoint, time.time())
        # Partitions were added: the lanes must know what the others let pass.
        begun = begun_lanes(self._checkpoint, folders)
        for number in range(len(folders)):
            self._metrics.lane_started(lane_name(number), number)
        if self._open_early(begun):
            return
        if must_carry_over(folders) and not self._carry_over_files(begun):
            committing = [self._start_lane(spark, number, only_commits=True) for number in begun]
            while not all(lane.has_committed() for lane in committing):
                if stop.wait(WATCH_SECONDS):
                    return
            carry_over_state(spark, self._checkpoint, folders)
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as beside:
            self._lanes += beside.map(partial(self._start_lane, spark), range(len(folders)))

    def _open_early(self, begun: Mapping[int, int]) -> bool:
        """Lets the lanes route that were begun while the other router routed. Returns False if there are none."""
        if self._early is None:
            return False
        try:
            self._early.check()
            routed_to = {number: offset for number, offset in begun.items() if number in self._early.begun}
            if self._early.adds_lanes and not self._carry_over_files(routed_to):
                raise SetupError("the files of ids do not hold")
        except SetupError as failed:
            log.info("the lanes that were begun early begin again: %s", failed)
            self._early.stop()
            return False
        self._lanes += self._early.open()
        log.info("the lanes were begun early, and go on where those of the other router ended")
        return True

    def _carry_over_files(self, begun: Mapping[int, int]) -> bool:
        """Carries over without a query, unless much has piled up: that is routed first. On executors a worker of the
        router before may be writing yet."""
        ends = self._raw.ends()
        has_piled_up = any(ends.get(number, 0) - routed_to > BACKLOG_RECORDS for number, routed_to in begun.items())
        if has_piled_up or not self._master.startswith("local"):
            return False
        return carry_over_files(self._checkpoint, begun, keep_seconds(self._config))

    def _end_lanes(self, spark: SparkSession) -> None:
        """Lets the open real-time batches end with a commit, and stops all queries.

        With a warm standby a commit comes before, from which that one begins its lanes (see `hand_over`). It keeps
        Spark from telling at length that it stops.
        """
        may_commit = True
        if is_held(self._checkpoint, STANDS_BY) and self._commit(spark):
            may_commit = wait_for_standby(self._checkpoint)
        if may_commit:
            self._commit(spark)
        spark.sparkContext.setLogLevel("OFF")
        with ThreadPoolExecutor() as beside:
            list(beside.map(Lane.stop, self._lanes))

    def _commit(self, spark: SparkSession) -> bool:
        """Ends the open real-time batches. Returns False if there are none, or they were not committed in time."""
        commits = {lane: lane.last_commit() for lane in self._lanes if lane.is_realtime and lane.failure() is None}
        if not commits:
            return False
        waking = probe_sender(self._config)
        return end_batches(spark, waking, lambda: all(lane.last_commit() != before for lane, before in commits.items()))

    def _watch(self, stop: threading.Event) -> None:
        looked_at, followed_at = time.monotonic(), float("-inf")
        while not stop.wait(WATCH_SECONDS):
            self._tell_reloaded()
            now = time.monotonic()
            if not self._has_ended.is_set() and now - looked_at < LOOK_SECONDS:
                continue
            self._has_ended.clear()
            looked_at = now
            is_due = now - followed_at >= FOLLOW_SECONDS
            for lane in self._lanes:
                try:
                    self._keep_running(lane)
                    if is_due:
                        self._follow(lane)
                except KafkaError as away:  # waited for, as everybody does; a query may wait too, or fail by then
                    log.warning("%s: kafka does not answer: %s", lane.name, type(away).__name__)
            if is_due:
                followed_at = time.monotonic()

    def _tell_reloaded(self) -> None:
        """Workers take over by themselves what may change, each with its next record; here it is told and shown."""
        change = self._settings.poll()
        if isinstance(change, Reloaded):
            log.info("the configuration has changed and is in force")
        elif change is not None:
            log.warning("%s", change)

    def _follow(self, lane: Lane) -> None:
        lane.follow()
        self._metrics.lane_mode(lane.name, is_realtime=lane.is_realtime)

    def _keep_running(self, lane: Lane) -> None:
        lane.begin_real_time()
        if (failure := lane.failure()) is None:
            return
        if not lane.start_again():
            raise SetupError(f"{lane.name} ended: {failure}")
        self._metrics.lane_restarted(lane.name)
        log.warning("%s ended and is started again: %s", lane.name, failure)

    def _unready(self, stop: threading.Event) -> dict[str, str]:
        if stop.is_set():
            return {"draining": "this router is going away"}
        return self._missing() | self._metrics.missing(time.time())

    def _missing(self) -> dict[str, str]:
        if not self._lanes:
            return {"queries": "not started yet"}
        dead = [lane.name for lane in self._lanes if lane.failure() is not None]
        return {"queries": f"ended: {', '.join(dead)}"} if dead else {}

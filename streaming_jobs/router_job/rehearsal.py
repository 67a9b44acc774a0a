"""Runs all lanes without routing anything, so that a standby has loaded, compiled and started what lanes need.

The plan is that of the lanes, so that Spark finds what it has compiled when the real ones start. The records that come
meanwhile give no outputs, and the checkpoints are thrown away.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming_jobs.router_job.checkpoint import last_commit
from streaming_jobs.router_job.plan import PlainRow, call_once, read_raw, route
from streaming_jobs.router_job.probes import probe_sender
from streaming_jobs.router_job.snapshot import write_snapshot
from streaming_jobs.routing.known_ids import keep_seconds
from streaming_jobs.spark.kafka_sink import sink_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from gateway.config import Config

log = logging.getLogger(__name__)

BATCH_SECONDS = 5
"""Spark takes no shorter batch in real time."""
ROUNDS = 2
"""The second one begins at a commit, as the lanes will."""
LOOK_SECONDS = 1.0


class NoOutputs:
    """Takes a record and routes nothing."""

    def __call__(self, value: bytes, partition: int, offset: int) -> PlainRow:  # noqa: ARG002 - as Spark calls it
        return int(time.time()), offset, b"", []


def rehearse(spark: SparkSession, config: Config, should_end: Callable[[], bool]) -> None:
    """Starts all lanes and stops them after a batch, and once more. It ends early if it should.

    It is no fault if this fails: the lanes then start as slowly as in a router that never stood by.
    """
    spark.sparkContext.setLogLevel("OFF")  # Spark would tell at length that a batch is cut off
    try:
        with tempfile.TemporaryDirectory(prefix="meshgate-rehearsal-") as folder, probe_sender(config) as wake:
            lanes = [Path(folder, str(number)) for number in range(config.lanes)]
            for _ in range(ROUNDS):
                _run(spark, config, lanes, wake, should_end)
    except Exception as failed:
        log.info("not rehearsed: %s", type(failed).__name__)
    finally:
        spark.sparkContext.setLogLevel("ERROR")


def _run(
    spark: SparkSession,
    config: Config,
    lanes: Sequence[Path],
    wake: Callable[[], None],
    should_end: Callable[[], bool],
) -> None:
    """Runs each lane for one batch. Its end needs a record: where nothing comes, that is a probe."""
    commits = [last_commit(lane) for lane in lanes]
    with ExitStack() as stack:
        queries = [_begin(spark, config, number, lane, stack) for number, lane in enumerate(lanes)]
        while not should_end() and any(
            query.isActive and last_commit(lane) == before
            for query, lane, before in zip(queries, lanes, commits, strict=True)
        ):
            wake()
            time.sleep(LOOK_SECONDS)


def _begin(spark: SparkSession, config: Config, number: int, lane: Path, stack: ExitStack) -> StreamingQuery:
    write_snapshot(spark, lane, lane.with_suffix(".ids"), number, 0)
    call_once(spark, abs, str(number))  # as a lane does to prepare its worker
    raw = read_raw(spark, config, number, begin="latest")
    writer = route(raw, NoOutputs(), str(number), keep_seconds(config)).writeStream.format("kafka").outputMode("update")
    writer = writer.options(**sink_options(config)).option("checkpointLocation", str(lane))
    is_realtime = config.router.mode != "microbatch"
    trigger: dict[str, Any] = {"realTime": f"{BATCH_SECONDS} seconds"} if is_realtime else {"availableNow": True}
    query: StreamingQuery = writer.trigger(**trigger).start()
    stack.callback(query.stop)
    return query

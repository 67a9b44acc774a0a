"""Ends an open real-time batch with a commit, so that a router that is stopped in order repeats nothing.

A real-time batch ends when its time is over, and Spark has no call that ends it sooner. Its readers ask one clock of
their JVM for the time. Here that clock is put past the batch's end. This reaches readers in the driver's own JVM. A
batch whose tasks run on executors is stopped as it is, and its outputs come again; edges drop them by position.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

WAIT_SECONDS = 2.0
LOOK_SECONDS = 0.02
AHEAD_MILLISECONDS = 86_400_000


def end_batches(
    spark: SparkSession, waking: AbstractContextManager[Callable[[], None]], is_done: Callable[[], bool]
) -> bool:
    """Ends the open real-time batches of this JVM; False if they were not committed in time.

    Args:
        waking: gives what puts a record into each raw partition, because a reader looks at the clock only when one
            comes. It connects first, so that nothing stands still meanwhile.
        is_done: says whether each lane has committed since.
    """
    if not str(spark.sparkContext.master).startswith("local["):
        return False
    try:
        with waking as wake:
            _put_clock_ahead(spark)
            wake()
    except Exception as failed:  # whatever a JVM or a broker that is going away too may say
        log.info("the open batches end without a commit: %s", type(failed).__name__)
        return False
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def _put_clock_ahead(spark: SparkSession) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 - the one way in
    module = getattr(jvm.org.apache.spark.sql.execution.datasources.v2, "LowLatencyClock$")
    clock = getattr(module, "MODULE$")
    clock.setClock(jvm.org.apache.spark.util.ManualClock(clock.getTimeMillis() + AHEAD_MILLISECONDS))

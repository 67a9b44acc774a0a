"""A router routes nothing while the JVM of the one before it is still there."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.router_job.lock import JVM, JvmLock
from tests.integration.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.integration


def test_a_jvm_waits_for_the_one_before_and_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    stop = threading.Event()
    lock = JvmLock(spark, tmp_path)
    with (tmp_path / JVM).open("w") as other:
        fcntl.lockf(other, fcntl.LOCK_EX)
        stop.set()
        assert not lock.wait(stop)
        fcntl.lockf(other, fcntl.LOCK_UN)
        assert lock.wait(stop)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.release()
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

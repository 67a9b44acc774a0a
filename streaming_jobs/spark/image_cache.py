"""Fills the router's images with what a pod would otherwise fetch, so that it starts fast.

`python -m streaming_jobs.spark.image_cache connector`, or `broker`, while an image is built; it goes where
`MESHGATE_CACHE` says, to be found there again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.local.jars import ensure_jars
from streaming_jobs.spark.exercise import exercise
from streaming_jobs.spark.self_test import self_test
from streaming_jobs.spark.session import archive_classes, begin_jvm, start_spark, stop_spark

ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
"""A state of Spark's usual 200 partitions has more files open than a builder may let a process have."""


def main(names: Sequence[str]) -> None:
    for name in names:
        ensure_jars(name)
    if "connector" in names:
        archive_spark_classes()


def archive_spark_classes() -> None:
    """Starts Spark once, which tests the set, and archives the classes of what a router runs."""
    begin_jvm("local[2]", lists_classes=True)
    session = start_spark("image", "local[2]", ONE_PARTITION)
    self_test(session)
    exercise(session)
    archive_classes()
    stop_spark(session)


if __name__ == "__main__":
    main(sys.argv[1:])

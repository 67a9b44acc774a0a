"""Fills the router's images with what a pod would otherwise fetch, so that it starts fast.

`python -m streaming_jobs.spark.image_cache connector`, or `broker`, while an image is built; it goes where
`MESHGATE_CACHE` says, to be found there again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.local.jars import ensure_jars
from gateway.local.java import find_java
from streaming_jobs.spark.self_test import self_test
from streaming_jobs.spark.session import start_spark, stop_spark

BUILD_SECONDS = 600
"""The time for the JVM to write its archive at its end. Nobody waits for a pod meanwhile."""


def main(names: Sequence[str]) -> None:
    for name in names:
        ensure_jars(name, find_java())
    if "connector" in names:
        archive_classes()


def archive_classes() -> None:
    """Starts Spark once, which tests the set, and ends it in order, which leaves the archive."""
    session = start_spark("image", "local[2]", {}, archives_classes=True)
    self_test(session)
    stop_spark(session, seconds=BUILD_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])

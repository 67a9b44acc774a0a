"""A Spark of the test run's own, for what needs one and no mesh."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from streaming_jobs.spark.events_table import SETTINGS
from streaming_jobs.spark.session import start_spark, stop_spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_spark("meshgate-tests", "local[2]", SETTINGS)
    yield session
    stop_spark(session)

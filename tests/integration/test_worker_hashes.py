"""The hashes of texts in Spark's workers are nothing that a peer could know."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.integration


def test_nobody_knows_where_a_subject_stands_in_a_workers_dict(spark: SparkSession) -> None:
    asked = [sys.executable, "-c", "print(hash('temp.high'))"]
    with_seed_0 = subprocess.run(asked, env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True)
    in_worker = spark.sparkContext.parallelize([0], 1).map(lambda _: hash("temp.high")).collect()
    assert in_worker != [int(with_seed_0.stdout)]

"""Tests what Spark's JVM threw is told in its own words, though it has ended when they are read."""

from __future__ import annotations

import subprocess
import sys

FAILS = """
from streaming_jobs.spark.session import BRIEF_JVM, brief, start_spark

spark = start_spark("fails", "local[1]", {}, jvm_options=BRIEF_JVM)
with brief(spark):
    spark.sparkContext._jvm.java.lang.Integer.parseInt("a word")
"""


def test_a_failure_is_told_in_the_words_of_the_jvm_that_has_ended() -> None:
    run = subprocess.run([sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=120, check=False)
    told = run.stderr.splitlines()[-1]
    assert told == 'streaming_jobs.spark.session.SparkFailed: For input string: "a word"'

"""Finds what is wrong with the rules of a configuration, with the place in the file."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.config import Config
from gateway.core.yaml_files.faults import Fault
from gateway.core.yaml_files.source import read_source


def faults_of(config: Config, by_place: Mapping[int, str]) -> list[Fault]:
    """Returns the faults of the rules as faults of the configuration.

    `by_place` are the faults by the rules' places in the list.
    """
    path = config.path
    source = read_source(path.read_text(), str(path), path.absolute().parent)
    source.faults.clear()
    for place, expected in sorted(by_place.items()):
        source.fault(("rules", place, "sql"), expected)
    return source.faults


def rule_faults(config: Config) -> list[Fault]:
    """Starts Spark, asks it about each rule, and ends it."""
    from streaming_jobs.rules.check import check_rules
    from streaming_jobs.spark.events_table import SETTINGS
    from streaming_jobs.spark.session import BRIEF_JVM, brief, start_spark

    spark = start_spark(f"meshgate-{config.mesh}-check", "local[1]", SETTINGS, jvm_options=BRIEF_JVM)
    with brief(spark):
        return faults_of(config, check_rules(spark, config.rules).faults)

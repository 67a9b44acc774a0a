"""Tests what Spark must plan for a lane. (That it does is shown with Spark, in `tests/integration/test_dedup.py`.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from gateway.core.errors import SetupError
from streaming_jobs.router_job.plan_check import is_as_planned

PLAN = """== Physical Plan ==
WriteToDataSourceV2 org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite
+- *(3) Project [out.topic, out.partition, out.key, out.value, out.headers]
   +- Generate explode(outs), false, [out]
      +- StreamingDeduplicate [log_time, offset, ids], state info [ checkpoint = state/router/lane-0/state]
         +- Coalesce 1
            +- EventTimeWatermark log_time, 12 minutes
               +- BatchEvalPython [RoutePass(value, partition, offset)], [pythonUDF0]
"""
SHUFFLED = PLAN.replace("+- Coalesce 1", "+- Exchange hashpartitioning(log_time, offset, ids, 1)")


@dataclass
class ExplainsItself:
    """What Spark's own query object says of its plan."""

    plan: str

    def explainInternal(self, _extended: bool) -> str:  # noqa: N802 - Spark's name
        return self.plan


class Query:
    name = "lane-0"

    def __init__(self, plan: str) -> None:
        self._jsq = ExplainsItself(plan)


def checked(plan: str) -> bool:
    return is_as_planned(cast("Any", Query(plan)))


def test_one_task_with_the_ids_in_its_state_is_as_planned() -> None:
    assert checked(PLAN)


def test_before_the_first_batch_nothing_is_decided() -> None:
    assert not checked("No physical plan. Waiting for data.")


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (SHUFFLED, "lane-0: this Spark plans an exchange"),
        (PLAN.replace("StreamingDeduplicate ", "Deduplicate "), "lane-0: this Spark stores no ids"),
    ],
)
def test_another_plan_ends_the_router_with_its_reason(plan: str, reason: str) -> None:
    with pytest.raises(SetupError, match=reason):
        checked(plan)

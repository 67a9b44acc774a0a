"""Makes sure that Spark runs a lane as one task, from Kafka to Kafka, with the ids in its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.core.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

STORES, EXCHANGE = "StreamingDeduplicate ", "Exchange"
NOT_PLANNED_YET = "No physical plan"


def is_as_planned(query: StreamingQuery) -> bool:
    """True once Spark has planned a batch as the router counts on; raises SetupError if it plans otherwise."""
    plan = query._jsq.explainInternal(False)  # noqa: SLF001 - `explain` only prints it
    if plan.startswith(NOT_PLANNED_YET):
        return False
    if STORES not in plan:
        raise SetupError(f"{query.name}: this Spark stores no ids: there is no {STORES.strip()} in its plan")
    if EXCHANGE in plan:
        raise SetupError(f"{query.name}: this Spark plans an exchange, so that a lane is not one task: {plan[:300]}")
    return True

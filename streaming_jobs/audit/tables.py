"""The topics of a stretch of time as tables, and every frame of its raw log with its account."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from gateway.config import Config
from gateway.config.topics import TOPICS, TopicName
from gateway.core.event import SECOND_US
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History
from streaming_jobs.audit import deliveries, frames
from streaming_jobs.reprocess.log_range import OUTPUT_LEAD_SECONDS, LogRange, whole_from
from streaming_jobs.reprocess.spark_tables import judge_frames, read_topic, stands_in

OUTPUTS: tuple[TopicName, ...] = tuple(
    name for name, topic in TOPICS.items() if name != "raw" and not topic.is_compacted
)
"""The router and the edges made these from the raw log."""
RECORDS_PER_TASK = 5_000
MOST_TASKS = 200


class Tables:
    """Keeps the tables of one audit as long as the session: every term is counted from the same rows.

    `read_to`: how far the outputs were read. `judged` is every frame as it is decided today; `frames` adds what became
    of it then.
    """

    def __init__(self, config: Config, spark: SparkSession, history: History, stretch: LogRange) -> None:
        self._config, self._spark, self._history, self._stretch = config, spark, history, stretch
        records = sum(span.size for span in stretch.spans.values())
        spark.conf.set("spark.sql.shuffle.partitions", min(2 + records // RECORDS_PER_TASK, MOST_TASKS))
        raw = read_topic(spark, config, "raw", stretch.spans)
        self.judged = kept(judge_frames(raw, config, stretch.standing_before))
        self.judged.count()  # now, so that the outputs are read later, when those of the last frames are there
        self._egress_from = max(whole_from(history, "egress", stretch.end), default=None)
        self._read({name: history.between(name, self._outputs_from(name), None) for name in OUTPUTS})

    def _outputs_from(self, name: TopicName) -> int | None:
        """Returns where to start reading, so that no egress goes while it is read: a day of it is kept, or less."""
        since, egress = self._stretch.outputs_from, self._egress_from
        if name != "egress" or egress is None:
            return since
        return max(since or 0, egress - OUTPUT_LEAD_SECONDS * SECOND_US)

    def _read(self, spans: dict[TopicName, dict[int, Span]]) -> None:
        self.read_to = {name: {at: span.end for at, span in parts.items()} for name, parts in spans.items()}
        records = {name: read_topic(self._spark, self._config, name, spans[name]) for name in OUTPUTS}
        self.events = kept(frames.events_then(records["events"]))
        self.refusals = kept(frames.refusals_then(records["rejected"]))
        self.outcomes = kept(self._within(deliveries.ended(records["deliveries"])))
        older = deliveries.as_sent(self.outcomes, self._without_egress())
        self.sent = kept(self._within(deliveries.sent(records["egress"])).unionByName(older))
        self.frames = kept(frames.accounted(self.judged, self.events, self.refusals, self._config))

    def _within(self, rows: DataFrame) -> DataFrame:
        """Returns the rows that belong to a frame of the range."""
        return rows.where(stands_in(self._stretch.spans))

    def _without_egress(self) -> dict[int, Span]:
        """Returns the frames of which what was sent may be gone."""
        if self._egress_from is None:
            return {}
        later = self._history.between("raw", self._egress_from, None)
        return {number: Span(0, span.start) for number, span in later.items()}


def kept(rows: DataFrame) -> DataFrame:
    return rows.persist(StorageLevel.MEMORY_AND_DISK)

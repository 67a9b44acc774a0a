"""The topics of a stretch of time as tables, and every frame of its raw log with its account."""

from __future__ import annotations

from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config
from gateway.config.kafka import TopicName
from gateway.history.places import Span
from gateway.history.topics import History
from streaming_jobs.audit import deliveries, frames
from streaming_jobs.judging.reading import judge_frames, read_topic
from streaming_jobs.judging.stretch import Stretch, first_times

OUTPUTS: tuple[TopicName, ...] = ("events", "rejected", "egress", "deliveries")
RECORDS_PER_TASK = 5_000
MOST_TASKS = 200


class Tables:
    """Kept as long as the session: every term is counted from the same rows.

    `read_to`: how far the outputs were read. `judged` is every frame as it is decided today; `frames` adds what became
    of it then.
    """

    def __init__(self, config: Config, spark: SparkSession, history: History, stretch: Stretch) -> None:
        self._config, self._spark, self._history, self._stretch = config, spark, history, stretch
        records = sum(span.size for span in stretch.spans.values())
        spark.conf.set("spark.sql.shuffle.partitions", min(2 + records // RECORDS_PER_TASK, MOST_TASKS))
        raw = read_topic(spark, config, "raw", stretch.spans)
        self.judged = kept(judge_frames(raw, config, stretch.standing_before))
        self.judged.count()  # now, so that the outputs are read later, when those of the last frames are there
        self._read({name: history.between(name, stretch.outputs_from, None) for name in OUTPUTS})

    def _read(self, spans: dict[TopicName, dict[int, Span]]) -> None:
        self.read_to = {name: {at: span.end for at, span in parts.items()} for name, parts in spans.items()}
        records = {name: read_topic(self._spark, self._config, name, spans[name]) for name in OUTPUTS}
        self.events = kept(frames.events_then(records["events"]))
        self.refusals = kept(frames.refusals_then(records["rejected"]))
        self.outcomes = kept(self._within(deliveries.ended(records["deliveries"])))
        older = deliveries.as_sent(self.outcomes, self._egress_from())
        self.sent = kept(self._within(deliveries.sent(records["egress"])).unionByName(older))
        self.frames = kept(frames.accounted(self.judged, self.events, self.refusals, self._config))

    def _within(self, rows: DataFrame) -> DataFrame:
        """What belongs to a frame of the stretch, by its event id."""
        place = F.split("event_id", "-")
        number, at = F.get(place, F.lit(0)).try_cast("int"), F.get(place, F.lit(1)).try_cast("long")
        spans = self._stretch.spans.items()
        inside = ((number == partition) & (at >= span.start) & (at < span.end) for partition, span in spans)
        return rows.where(reduce(Column.__or__, inside))

    def _egress_from(self) -> int:
        """From this time on all of egress is there; 0 if nothing of it has ever gone."""
        gone = {number: span for number, span in self._history.bounds("egress").items() if span.start > 0}
        first = first_times(self._history, gone, "egress")
        return max((first.get(number, self._stretch.end) for number in gone), default=0)


def kept(rows: DataFrame) -> DataFrame:
    return rows.persist(StorageLevel.MEMORY_AND_DISK)

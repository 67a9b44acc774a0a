"""Dedup by the engine's own operator: the router's plan over a log that is stopped, killed and taken up again."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway import event_records
from gateway.auth.keyring import KeyRing
from gateway.config import Config, parse
from gateway.event import Auth
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import UserEvent
from gateway.raw_log.container import ContainerBuilder
from gateway.raw_log.frames import Source
from streaming_jobs.router.checkpoint import committed_watermark, in_short
from streaming_jobs.router.plan import route
from streaming_jobs.router.sweep import Sweep
from streaming_jobs.router.worker import PlainRow
from streaming_jobs.routing.dedup import LATEST_SECONDS, Buckets
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.rows import RowFunctions
from tests.integration.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.integration

CONFIGURATION = yaml.safe_dump(
    {"mesh": "t", "listeners": [{"name": "apps", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"}]}
)
BEGIN = 10_000_000
NODE = "node"
KEYS = 25
FRAMES_PER_BATCH = 80
LONG_PAUSES = 0.1
BATCHES_PER_RUN = (2, 2, 2)
DAY_SECONDS, BACKLOG = 86_400, 2_000

Passed = tuple[int, int]
"""The id of a frame, and when it was received."""


@cache
def config() -> Config:
    return parse(CONFIGURATION, Path("meshgate.yaml"), os.environ)


@cache
def row_functions() -> RowFunctions:
    return RowFunctions(MeshState(config(), KeyRing({}), None))


def routes(value: bytes, partition: int, offset: int) -> list[PlainRow]:
    """As the router's worker does, but for the time, which stands before the record."""
    now, record = int.from_bytes(value[:8], "big"), value[8:]
    rows = row_functions().route_record(record, partition, offset, now)
    return [(row.key, row.at, [tuple(out) for out in row.outs]) for row in rows]


@dataclass(frozen=True)
class Frame:
    """A message id, when the edge received it, and when the router read it."""

    key: int
    received: int
    read: int

    def line(self, offset: int) -> str:
        source = Source("yamp", "apps", "edge-0", 1, 1, "10.0.0.1:9", NODE, Auth.NONE, facts={"format": "json"})
        builder = ContainerBuilder("edge-0", 1)
        data = encode(UserEvent(self.key.to_bytes(16, "big"), "temp.high", b"1"))
        builder.add_run(source, self.received * 1_000_000, data, (len(data),))
        value = self.read.to_bytes(8, "big") + builder.build()
        return json.dumps({"value": base64.b64encode(value).decode(), "partition": 0, "offset": offset})


def interleaved(chance: random.Random) -> Iterator[list[Frame]]:
    """Batches of frames in the order of their receipt, each read up to LATEST after it. Ids come again at any distance:
    at once, about a window later, about a bucket later, and long after.
    """
    received, window = BEGIN, Buckets.of(config()).window_seconds
    pauses = (60, window // 2, window - 1, window, window + 1, 2 * window)
    while True:
        batch = []
        for _ in range(chance.randint(1, FRAMES_PER_BATCH)):
            received += chance.choice(pauses) if chance.random() < LONG_PAUSES else chance.randint(0, 3)
            batch.append(Frame(chance.randrange(KEYS), received, received + chance.randrange(LATEST_SECONDS)))
        yield batch


@dataclass
class Log:
    """A raw partition as files, one for a batch; the query over it; and what passed, by batch.

    `evicts`: Spark does it, as on executors. Else the state is swept after each run, as a router's in one process.
    """

    spark: SparkSession
    folder: Path
    evicts: bool = False
    frames: list[Frame] = field(default_factory=list)
    batches: int = 0
    passed: dict[int, list[Passed]] = field(default_factory=dict)
    late: int = 0

    def __post_init__(self) -> None:
        (self.folder / "raw").mkdir(parents=True)

    def add(self, batch: list[Frame]) -> None:
        lines = [frame.line(len(self.frames) + at) for at, frame in enumerate(batch)]
        file = self.folder / "raw" / f"{self.batches:04}.json"
        file.with_suffix(".new").write_text("\n".join(lines))
        os.utime(file.with_suffix(".new"), (BEGIN + self.batches, BEGIN + self.batches))
        file.with_suffix(".new").rename(file)
        self.frames += batch
        self.batches += 1

    def run(self) -> None:
        """All there is, from the checkpoint."""
        lines = self.spark.readStream.schema("value string, partition int, offset bigint")
        raw = lines.option("maxFilesPerTrigger", 1).option("pathGlobFilter", "*.json").json(str(self.folder / "raw"))
        routed = route(raw.withColumn("value", F.unbase64("value")), routes, Buckets.of(config()), evicts=self.evicts)
        writer = routed.writeStream.foreachBatch(self._take).outputMode("update")
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        self._query = query
        if not self.evicts:
            self.sweep()
        for progress in query.recentProgress:
            self.late += sum(one["numRowsDroppedByWatermark"] for one in progress["stateOperators"])

    def sweep(self) -> int:
        """The rows that are left, counted one by one: RocksDB's own number is a guess after a state was loaded."""
        sweep = Sweep(self.spark)
        sweep.run(self._query, committed_watermark(self._checkpoint))
        return sum(map(rows_of, sweep.databases(self._query)))

    def _take(self, outputs: DataFrame, batch: int) -> None:
        rows = outputs.where("topic = 't.events'").collect()
        passed = [passed_in(row["headers"]) for row in rows]
        assert self.passed.setdefault(batch, passed) == passed, "a batch that is repeated passes what it passed before"

    def forget_last_commit(self) -> None:
        """As a router that was killed after its last batch was written and before that was noted."""
        (last,) = sorted((self._checkpoint / "commits").glob("[0-9]*"), key=lambda one: int(one.name))[-1:]
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint"


def rows_of(database: Any) -> int:
    rows, count = database.newIterator(), 0
    rows.seekToFirst()
    while rows.isValid():
        rows.next()
        count += 1
    rows.close()
    return count


def passed_in(headers: list[Any]) -> Passed:
    """Of an event as it is recorded."""
    (event,) = event_records.read([(one["key"], bytes(one["value"])) for one in headers], b"")
    return int(event.message_id, 16), event.received_at // 1_000_000


@pytest.fixture
def one_state_partition(spark: SparkSession) -> Iterator[None]:
    """As each lane has: first in, first out."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before or "2")


@pytest.mark.parametrize("evicts", [(False, False, False), (True, False, True)])
@pytest.mark.usefixtures("one_state_partition")
def test_each_message_passes_once_within_the_window_whatever_is_stopped_and_killed_between(
    spark: SparkSession, tmp_path: Path, evicts: tuple[bool, ...]
) -> None:
    """A checkpoint may be taken from one process to executors, and back."""
    seed = random.randrange(1 << 32)
    log, batches = Log(spark, tmp_path / "log"), interleaved(random.Random(seed))
    for count, log.evicts in zip(BATCHES_PER_RUN, evicts, strict=True):
        for _ in range(count):
            log.add(next(batches))
        log.run()
        log.forget_last_commit()
    log.run()
    assert log.late == 0, seed
    passed = [one for batch in sorted(log.passed) for one in log.passed[batch]]
    assert len(passed) < len(log.frames), seed
    for key in range(KEYS):
        came = [frame.received for frame in log.frames if frame.key == key]
        check(came, [received for id_, received in passed if id_ == key], f"{seed=} {key=}")


@pytest.mark.usefixtures("one_state_partition")
def test_a_large_backlog_that_is_old_in_one_partition_and_new_in_another_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The router was away for a day. What it finds then is of the whole day in one batch, of a moment in the next."""
    log, back = Log(spark, tmp_path / "log"), BEGIN + DAY_SECONDS
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    old = [Frame(KEYS + at, BEGIN + at * DAY_SECONDS // BACKLOG, back) for at in range(BACKLOG)]
    new = [Frame(KEYS + BACKLOG + at, back - at % 2, back + at) for at in range(KEYS)]
    for batch in (new, old, new, old):
        log.add(batch)
    log.run()
    log.run()
    assert log.late == 0
    passed = [id_ for batch in sorted(log.passed) for id_, _ in log.passed[batch]]
    assert sorted(passed) == list(range(2 * KEYS + BACKLOG))


@pytest.mark.usefixtures("one_state_partition")
def test_what_the_watermark_has_passed_is_swept_out_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    log, buckets = Log(spark, tmp_path / "log"), Buckets.of(config())
    begin = BEGIN - BEGIN % buckets.bucket_seconds  # far from the next bucket, so that each id has one row
    log.add([Frame(key, begin, begin) for key in range(KEYS)])
    log.run()
    assert log.sweep() == KEYS, "the watermark has passed none"
    last = begin + buckets.delay_seconds // buckets.bucket_seconds * buckets.bucket_seconds
    log.add([Frame(KEYS + at, last, last) for at in range(KEYS)])
    log.run()
    assert log.sweep() == 2 * KEYS, "it has come to the first bucket and not gone past it"
    after = last + buckets.bucket_seconds
    log.add([Frame(2 * KEYS, after, after)])
    log.run()
    assert log.sweep() == KEYS + 1
    log.add([Frame(KEYS + at, last + 1, after) for at in range(KEYS)])
    log.run()
    assert [len(log.passed[batch]) for batch in sorted(log.passed)] == [KEYS, KEYS, 1, 0]


@pytest.mark.usefixtures("one_state_partition")
def test_a_router_that_begins_with_its_clock_put_back_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log, buckets = Log(spark, tmp_path / "log"), Buckets.of(config())
    log.add([Frame(key, BEGIN + DAY_SECONDS, BEGIN + DAY_SECONDS) for key in range(KEYS)])
    log.run()
    watermark = committed_watermark(log.folder / "checkpoint")
    assert watermark > BEGIN + DAY_SECONDS // 2
    begins = max(BEGIN, buckets.least_now(watermark))
    for batch in (1, 2):  # what is late is late by the watermark of the batch before
        log.add([Frame(batch * KEYS + at, BEGIN + at, begins + at) for at in range(KEYS)])
    log.run()
    assert log.late == 0
    assert [len(log.passed[batch]) for batch in sorted(log.passed)] == [KEYS, KEYS, KEYS]


def newest(state: Path) -> Path:
    return max(state.glob("*.changelog"), key=lambda one: int(one.name.split("_")[0]))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.usefixtures("one_state_partition")
def test_a_damaged_state_is_refused_with_what_to_do_and_never_taken_for_an_empty_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(spark, tmp_path / "log")
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    log.add([Frame(key, BEGIN + 1, BEGIN + 1) for key in range(KEYS + 1)])
    whole, checkpoint = tmp_path / "whole", log.folder / "checkpoint"
    shutil.copytree(checkpoint, whole)
    state = checkpoint / "state" / "0" / "0"
    damages: tuple[Callable[[], object], ...] = (
        lambda: flip(newest(state)),
        lambda: newest(state).unlink(),
        lambda: shutil.rmtree(state.parent),
    )
    for damage in damages:
        damage()
        with pytest.raises(StreamingQueryException) as refused:
            log.run()
        assert "it is damaged: move it away" in in_short(str(refused.value), checkpoint)
        shutil.rmtree(checkpoint)
        shutil.copytree(whole, checkpoint)
    log.run()
    assert [len(log.passed[batch]) for batch in sorted(log.passed)] == [KEYS, 1]


def check(came: list[int], passed: list[int], which: str) -> None:
    """What was promised of one id: of what came within a window one passed; of what came long after, all."""
    window = Buckets.of(config()).window_seconds
    assert all(later - earlier > window for earlier, later in pairwise(passed)), which
    long_after = [later for earlier, later in pairwise(came) if later - earlier > 3 * window]
    assert set(came[:1]) | set(long_after) <= set(passed) <= set(came), which

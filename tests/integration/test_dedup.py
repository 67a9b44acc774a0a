"""The ids that a lane knows, over a log that is stopped, killed and taken up again: the router's own plan and pass.

Spark runs the plan over files, one for each batch. The worker is Spark's, and is the same from run to run unless the
test kills it. Before each run the ids of the last commit are written for it, as a lane does.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.auth.keyring import KeyRing
from gateway.config import Config, parse
from gateway.core.event import Auth
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import UserEvent
from gateway.records import event_records
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from streaming_jobs.router_job.checkpoint import in_short, last_commit
from streaming_jobs.router_job.id_log import ids_folder, part_path
from streaming_jobs.router_job.ordered_pass import OrderedPass
from streaming_jobs.router_job.plan import PlainRow, route
from streaming_jobs.router_job.plan_check import is_as_planned
from streaming_jobs.router_job.snapshot import has_snapshot, write_snapshot
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.known_ids import keep_seconds, repeat_horizon_seconds
from streaming_jobs.routing.mesh_state import MeshState
from tests.integration.spark_session import spark

__all__ = ["spark"]
pytestmark = pytest.mark.usefixtures("one_state_partition")

CONFIGURATION = yaml.safe_dump(
    {"mesh": "t", "listeners": [{"name": "apps", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"}]}
)
BEGIN = 10_000_000
NODE = "node"
KEYS = 25
FRAMES_PER_BATCH = 80
LONG_PAUSES = 0.1
DAY_SECONDS, BACKLOG = 86_400, 2_000

Passed = tuple[int, int]
"""The id of a frame, and when it was received."""


@cache
def config() -> Config:
    return parse(CONFIGURATION, Path("meshgate.yaml"), os.environ)


@cache
def ordered_pass(checkpoint: str) -> OrderedPass:
    return OrderedPass(FrameRouter(MeshState(config(), KeyRing({}), None)), Path(checkpoint))


@dataclass(frozen=True)
class Pass:
    """The worker's own way of routing, but for the time, which stands before the record, and the process that does it,
    which is put down for the test to kill."""

    checkpoint: str

    def __call__(self, value: bytes, partition: int, offset: int) -> PlainRow:
        now, record = int.from_bytes(value[:8], "big"), bytes(value[8:])
        Path(self.checkpoint, "worker").write_text(str(os.getpid()))
        routed = ordered_pass(self.checkpoint).route(record, partition, offset, now)
        return routed.log_seconds, offset, routed.ids, [tuple(out) for out in routed.outs]


@dataclass(frozen=True)
class Frame:
    """A message id, when the edge received it, and when the router read it."""

    key: int
    received: int
    read: int

    def line(self, offset: int) -> str:
        source = FrameSource("yamp", "apps", "edge-0", 1, 1, "10.0.0.1:9", NODE, Auth.NONE, facts={"format": "json"})
        builder = ContainerBuilder("edge-0", 1)
        data = encode(UserEvent(self.key.to_bytes(16, "big"), "temp.high", b"1"))
        builder.add_run(source, self.received * 1_000_000, data, (len(data),))
        value = self.read.to_bytes(8, "big") + builder.build()
        return json.dumps({"value": base64.b64encode(value).decode(), "partition": 0, "offset": offset})


def interleaved(chance: random.Random) -> Iterator[list[Frame]]:
    """Batches of frames in the order of their receipt. Ids come again at any distance: at once, about the horizon
    later, and long after.
    """
    received, horizon = BEGIN, repeat_horizon_seconds(config())
    pauses = (60, horizon // 2, horizon - 1, horizon, horizon + 1, 2 * horizon)
    while True:
        batch = []
        for _ in range(chance.randint(1, FRAMES_PER_BATCH)):
            received += chance.choice(pauses) if chance.random() < LONG_PAUSES else chance.randint(0, 3)
            batch.append(Frame(chance.randrange(KEYS), received, received + chance.randrange(3_600)))
        yield batch


@dataclass
class Log:
    """A raw partition as files, one for a batch; the query over it; and what passed, by batch."""

    spark: SparkSession
    folder: Path
    frames: list[Frame] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    passed: dict[int, list[Passed]] = field(default_factory=dict)
    late: int = 0
    is_planned: bool = False

    def __post_init__(self) -> None:
        (self.folder / "raw").mkdir(parents=True)
        self.lane.mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def lane(self) -> Path:
        return self.checkpoint / "lane-0"

    def add(self, batch: list[Frame]) -> None:
        lines = [frame.line(len(self.frames) + at) for at, frame in enumerate(batch)]
        number = len(self.ends)
        file = self.folder / "raw" / f"{number:04}.json"
        file.with_suffix(".new").write_text("\n".join(lines))
        os.utime(file.with_suffix(".new"), (BEGIN + number, BEGIN + number))
        file.with_suffix(".new").rename(file)
        self.frames += batch
        self.ends.append(len(self.frames))

    def committed(self) -> int:
        """The offset before which everything is committed."""
        batch = last_commit(self.lane)
        return 0 if batch is None else self.ends[batch]

    def has_files(self) -> bool:
        """True if the worker's own files reach the last commit."""
        return has_snapshot(self.checkpoint, 0, self.committed(), keep_seconds(config()))

    def run(self, *, ensures_snapshot: bool = True) -> None:
        """Routes all there is, from the last commit."""
        if ensures_snapshot and not self.has_files():
            write_snapshot(self.spark, self.lane, self.checkpoint, 0, self.committed())
        lines = self.spark.readStream.schema("value string, partition int, offset bigint")
        raw = lines.option("maxFilesPerTrigger", 1).option("pathGlobFilter", "*.json").json(str(self.folder / "raw"))
        raw = raw.withColumn("value", F.unbase64("value"))
        routed = route(raw, Pass(str(self.checkpoint)), "0", keep_seconds(config()))
        writer = routed.writeStream.foreachBatch(self._take).outputMode("update")
        query = writer.option("checkpointLocation", str(self.lane)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        self.is_planned = self.is_planned or is_as_planned(query)
        for progress in query.recentProgress:
            self.late += sum(one["numRowsDroppedByWatermark"] for one in progress["stateOperators"])

    def _take(self, outputs: DataFrame, batch: int) -> None:
        rows = outputs.where("topic = 't.events'").collect()
        passed = [passed_in(row["headers"]) for row in rows]
        assert self.passed.setdefault(batch, passed) == passed, "a batch that is repeated passes what it passed before"

    def forget_last_commit(self) -> None:
        """Leaves the checkpoint as a router that was killed after its last batch was written, before that was noted."""
        last = last_commit(self.lane)
        (self.lane / "commits" / str(last)).unlink()
        (self.lane / "commits" / f".{last}.crc").unlink(missing_ok=True)

    def kill_worker(self) -> None:
        os.kill(int((self.checkpoint / "worker").read_text()), signal.SIGKILL)

    def all_passed(self) -> list[Passed]:
        return [passed for batch in sorted(self.passed) for passed in self.passed[batch]]

    def state_rows(self) -> int:
        return self.spark.read.format("statestore").load(str(self.lane)).count()


def passed_in(headers: list[Any]) -> Passed:
    """Reads an event as it is recorded."""
    (event,) = event_records.read([(one["key"], bytes(one["value"])) for one in headers], b"")
    return int(event.message_id, 16), event.received_at // 1_000_000


def expected(frames: list[Frame]) -> list[Passed]:
    """The rule itself: a frame is a repeat if its id passed last within the horizon."""
    last: dict[int, int] = {}
    passed = []
    for frame in frames:
        if frame.key not in last or frame.received - last[frame.key] > repeat_horizon_seconds(config()):
            last[frame.key] = frame.received
            passed.append((frame.key, frame.received))
    return passed


@pytest.fixture
def one_state_partition(spark: SparkSession) -> Iterator[None]:
    """The state has one partition, as each lane's has."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before or "2")


def test_each_message_passes_exactly_once_within_the_horizon_whatever_is_killed_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    log, batches = Log(spark, tmp_path / "log"), interleaved(chance)
    accidents: tuple[Callable[[], None], ...] = (log.forget_last_commit, log.kill_worker, lambda: None)
    for count in (3, 2, 2, 2):
        for _ in range(count):
            log.add(next(batches))
        log.run()
        assert log.has_files(), seed
        chance.choice(accidents)()
    log.run()
    assert log.is_planned
    assert log.late == 0, seed
    assert log.all_passed() == expected(log.frames), seed


def test_a_large_backlog_loses_nothing_and_what_it_repeats_is_known(spark: SparkSession, tmp_path: Path) -> None:
    """The router was away for a day, and reads all of it within a minute."""
    log, back = Log(spark, tmp_path / "log"), BEGIN + DAY_SECONDS
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    old = [Frame(KEYS + at // 2, BEGIN + at * DAY_SECONDS // BACKLOG, back) for at in range(BACKLOG)]
    for begin in range(0, BACKLOG, BACKLOG // 4):
        log.add(old[begin : begin + BACKLOG // 4])
    log.run()
    assert log.late == 0
    assert log.all_passed() == expected(log.frames)
    assert len(log.all_passed()) == KEYS + BACKLOG // 2


def test_what_the_watermark_has_passed_leaves_the_state(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(spark, tmp_path / "log")
    for at in range(4):  # a row goes when a batch begins behind the watermark of the one before
        received = BEGIN + at * (keep_seconds(config()) + 1)
        log.add([Frame(at * KEYS + key, received, received) for key in range(KEYS)])
    log.run()
    assert log.state_rows() <= 2 * KEYS
    assert len(log.all_passed()) == 4 * KEYS


def test_a_router_whose_clock_was_put_back_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log, ahead = Log(spark, tmp_path / "log"), BEGIN + DAY_SECONDS
    log.add([Frame(key, ahead, ahead) for key in range(KEYS)])
    log.run()
    for batch in (1, 2):
        log.add([Frame(batch * KEYS + at, BEGIN + at, BEGIN + at) for at in range(KEYS)])
    log.run()
    assert log.late == 0
    assert log.all_passed() == expected(log.frames)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [Path.unlink, cut, lambda path: path.write_bytes(b"")])
def test_a_worker_without_a_memory_of_its_place_ends_the_query(
    spark: SparkSession, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    log = Log(spark, tmp_path / "log")
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    log.kill_worker()
    log.add([Frame(key, BEGIN + 1, BEGIN + 1) for key in range(KEYS + 1)])
    write_snapshot(spark, log.lane, log.checkpoint, 0, log.committed())
    damage(part_path(ids_folder(log.checkpoint, 0), log.committed()))
    with pytest.raises(StreamingQueryException, match="NoMemory"):
        log.run(ensures_snapshot=False)
    log.run()
    assert log.all_passed() == expected(log.frames)


def test_a_snapshot_of_another_offset_serves_nobody(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(spark, tmp_path / "log")
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    log.add([Frame(KEYS, BEGIN, BEGIN)])
    log.run()
    log.forget_last_commit()
    write_snapshot(spark, log.lane, log.checkpoint, 0, log.committed() + 1)
    with pytest.raises(StreamingQueryException, match="stand before offset 25"):
        log.run(ensures_snapshot=False)


def newest(state: Path) -> Path:
    return max(state.glob("*.changelog"), key=lambda one: int(one.name.split("_")[0]))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def test_a_damaged_state_is_refused_with_what_to_do_and_never_taken_for_an_empty_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(spark, tmp_path / "log")
    log.add([Frame(key, BEGIN, BEGIN) for key in range(KEYS)])
    log.run()
    log.add([Frame(key, BEGIN + 1, BEGIN + 1) for key in range(KEYS + 1)])
    whole = tmp_path / "whole"
    shutil.copytree(log.lane, whole)
    state = log.lane / "state" / "0" / "0"
    damages: tuple[Callable[[], object], ...] = (
        lambda: flip(newest(state)),
        lambda: newest(state).unlink(),
        lambda: shutil.rmtree(state.parent),
    )
    for damage in damages:
        damage()
        with pytest.raises(Exception) as refused:  # noqa: PT011 - Spark's own, in several forms
            log.run()
        assert "it is damaged: move it away" in in_short(str(refused.value), log.lane)
        shutil.rmtree(log.lane)
        shutil.copytree(whole, log.lane)
    log.run()
    assert log.all_passed() == expected(log.frames)

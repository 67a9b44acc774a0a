"""Each message passes exactly once within the horizon, in whatever order workers, tasks, queries and partitions go.

The worker's pass, the snapshot and the tables are the product's own. Spark's part is played: a batch commits its offset
together with the rows of its records, and the watermark lets rows go as early as Spark may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.records import event_records
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from streaming_jobs.router_job.id_log import NoMemory, ids_folder
from streaming_jobs.router_job.ordered_pass import OrderedPass
from streaming_jobs.router_job.snapshot import CarriedWriter, SnapshotWriter, carry_over_files, has_snapshot
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.id_table import GENERATION_SECONDS
from streaming_jobs.routing.known_ids import LATENESS_SECONDS
from tests.unit.routing.asking import client, event
from tests.unit.routing.mesh_in_a_log import MeshInALog

BEGIN = 1_700_000_000
NODES, NUMBERS, MOST_PARTITIONS = 3, 2, 4
HORIZON = 420
KEEP = HORIZON + LATENESS_SECONDS
PAUSES = (0, 1, 60, 120, HORIZON - 1, HORIZON, HORIZON + 1, GENERATION_SECONDS, KEEP, KEEP + GENERATION_SECONDS)

Key = tuple[int, int]
"""A node and the number of its message."""
Passed = list[Key]


@cache
def mesh() -> MeshInALog:
    return MeshInALog(partitions=MOST_PARTITIONS)


@cache
def source(node: int) -> FrameSource:
    return client(mesh(), node=f"node-{node}").source


@dataclass
class Lane:
    """A raw partition, the query over it, and what Spark holds for it."""

    checkpoint: Path
    partition: int
    log: list[tuple[bytes, int]] = field(default_factory=list)
    """Records, and when the router could read them."""
    committed: int = 0
    state: list[tuple[int, bytes]] = field(default_factory=list)
    watermark: int = 0
    batch: list[tuple[int, bytes]] = field(default_factory=list)
    passed: dict[int, Passed] = field(default_factory=dict)
    outputs_from: int = 0
    """Outputs of records before this offset are left out: another router has written them."""
    written: set[int] = field(default_factory=set)
    """The offsets of the records whose outputs have been written."""
    workers: list[OrderedPass] = field(default_factory=list)
    """The first one has the task."""
    all_workers: list[OrderedPass] = field(default_factory=list)
    restarts: int = 0
    snapshots: int = 0

    def __post_init__(self) -> None:
        self.workers = [self._worker(), self._worker()]
        self.start()

    def _worker(self) -> OrderedPass:
        self.all_workers.append(OrderedPass(FrameRouter(mesh().state), self.checkpoint))
        return self.all_workers[-1]

    def close(self) -> None:
        for worker in self.all_workers:
            worker.close()

    def start(self) -> None:
        """Starts the query: from the last commit, with a snapshot of its state if the lane's files do not reach it."""
        self.batch, self.outputs_from = [], 0
        if self.committed and has_snapshot(self.checkpoint, self.partition, self.committed, KEEP):
            return
        self.snapshots += 1
        self.write_snapshot(self.committed, sorted(self.state))

    def write_snapshot(self, offset: int, rows: list[tuple[int, bytes]]) -> None:
        SnapshotWriter(str(self.checkpoint), self.partition, offset)(rows)

    def run(self) -> None:
        """Routes what there is. A worker without a memory of its place ends the query, and the lane begins again."""
        while (offset := self.committed + len(self.batch)) < len(self.log):
            record, now = self.log[offset]
            try:
                routed = self.workers[0].route(record, self.partition, offset, now)
            except NoMemory:
                self.restarts += 1
                self.start()
                continue
            outs = [out for out in routed.outs if out.topic == "t.events"]
            events = [event for out in outs for event in event_records.read(out.headers, out.value or b"")]
            keys = [(int(one.node[-1]), int(one.message_id.replace("-", ""), 16)) for one in events]
            assert self.passed.setdefault(offset, keys) == keys, "a record passes again what it passed before"
            self.batch.append((routed.log_seconds, routed.ids))
            assert offset in self.written or offset >= self.outputs_from, "it is left out, and nobody has written it"
            self.written.add(offset)

    def commit(self) -> None:
        """Ends the batch. The watermark of a batch follows from those before it, and a row behind it may go."""
        assert all(log_seconds > self.watermark for log_seconds, _ in self.batch), "no row is late"
        self.committed += len(self.batch)
        self.state = [row for row in [*self.state, *self.batch] if row[0] > self.watermark]
        self.watermark = max([self.watermark, *(log_seconds - KEEP for log_seconds, _ in self.state)])
        self.batch = []

    # -- accidents -------------------------------------------------------------------------------------------

    def stop_query(self) -> None:
        self.start()

    def kill_worker(self) -> None:
        self.workers[0] = self._worker()

    def move_task(self) -> None:
        """To another executor, whose worker may have had the lane before. The batch is tried again there."""
        self.workers.reverse()
        self.batch = []

    def retry_task(self) -> None:
        self.batch = []

    def kill_router(self) -> None:
        """The next worker has the files alone."""
        self.workers = [self._worker(), self._worker()]
        self.start()

    def hand_over(self) -> None:
        """A standby's worker has read the ids of the last commit, while this one routed on. What this one commits in
        the end is taken back, and its outputs are left out."""
        if not has_snapshot(self.checkpoint, self.partition, self.committed, KEEP):
            return
        standby = self._worker()
        standby.prepare(self.partition, self.committed)
        self.workers = [standby, self._worker()]
        self.outputs_from = self.committed + len(self.batch)
        self.batch = []

    def lose_files(self) -> None:
        for part in ids_folder(self.checkpoint, self.partition).iterdir():
            part.unlink()
        self.kill_worker()

    def lose_a_part(self) -> None:
        parts = sorted(ids_folder(self.checkpoint, self.partition).iterdir(), key=lambda part: int(part.name))
        if parts:
            parts[len(parts) // 2].unlink()
        self.kill_worker()

    def damage_files(self) -> None:
        for part in ids_folder(self.checkpoint, self.partition).iterdir():
            part.write_bytes(part.read_bytes()[:-1])
        self.kill_worker()

    def misplace_snapshot(self) -> None:
        """One of an earlier commit is there."""
        self.write_snapshot(max(self.committed - 1, 0), [])
        self.kill_worker()


ACCIDENTS: tuple[Callable[[Lane], None], ...] = (
    Lane.commit, Lane.commit, Lane.stop_query, Lane.kill_worker, Lane.move_task, Lane.retry_task, Lane.kill_router,
    Lane.hand_over, Lane.hand_over, Lane.lose_files, Lane.lose_a_part, Lane.damage_files, Lane.misplace_snapshot,
)  # fmt: skip


@dataclass
class Router:
    """Lanes over partitions that may grow."""

    checkpoint: Path
    lanes: list[Lane] = field(default_factory=list)
    now: int = BEGIN
    expected: Passed = field(default_factory=list)
    _last: dict[Key, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lanes = [Lane(self.checkpoint, 0)]

    def log(self, keys: list[Key]) -> None:
        """Logs a record for each partition, and keeps what the rule says of its frames."""
        builders = {lane.partition: ContainerBuilder("edge-0", 7) for lane in self.lanes}
        for node, number in keys:
            partition = node % len(self.lanes)
            builders[partition].add(source(node), self.now * 1_000_000, event("a.x", number))
            if (node, number) not in self._last or self.now - self._last[node, number] > HORIZON:
                self._last[node, number] = self.now
                self.expected.append((node, number))
        for partition, builder in builders.items():
            if any(node % len(self.lanes) == partition for node, _ in keys):
                self.lanes[partition].log.append((builder.build(), self.now + 5))

    def grow(self) -> None:
        """Adds a partition: what the lanes know is carried over, and what they have not committed is routed again.

        Where their files do not hold, they commit first, and Spark's state is carried over.
        """
        if len(self.lanes) == MOST_PARTITIONS:
            return
        for lane in self.lanes:
            lane.run()
        if not carry_over_files(self.checkpoint, {lane.partition: len(lane.log) for lane in self.lanes}, KEEP):
            for lane in self.lanes:
                lane.commit()
                CarriedWriter(str(self.checkpoint), lane.partition)(sorted(lane.state))
        for lane in self.lanes:
            lane.kill_router()
        self.lanes.append(Lane(self.checkpoint, len(self.lanes)))


steps = st.lists(
    st.tuples(
        st.sampled_from(PAUSES),
        st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NUMBERS - 1)), min_size=1, max_size=4),
        st.sampled_from([*range(len(ACCIDENTS)), None, "grow"]),
        st.booleans(),
    ),
    min_size=8,
    max_size=30,
)


@settings(deadline=None)
@given(steps)
def test_each_message_passes_exactly_once_whatever_happens_between(
    drawn: list[tuple[int, list[Key], int | str | None, bool]],
) -> None:
    assert mesh().state.horizon_seconds == HORIZON
    with TemporaryDirectory() as folder:
        router = Router(Path(folder))
        for pause, keys, accident, is_all_struck in drawn:
            router.now += pause
            router.log(keys)
            struck = router.lanes if is_all_struck else router.lanes[:1]
            for lane in router.lanes:
                lane.run()
            if accident == "grow":
                router.grow()
            for lane in struck:
                if isinstance(accident, int):
                    ACCIDENTS[accident](lane)
        for lane in router.lanes:
            lane.run()
            lane.close()
        assert all(lane.written == set(range(len(lane.log))) for lane in router.lanes)
        passed = [key for lane in router.lanes for keys in lane.passed.values() for key in keys]
        assert sorted(passed) == sorted(router.expected)

"""The Python worker of a lane: one process, kept from batch to batch.

It routes the records of one raw partition in their order, and keeps two things in memory that follow from the log up to
the record at hand: the interests that stand, and the ids that have passed (see `ordered_pass`).

A worker whose memory is not of the place at hand, as a new one's, reads the compacted topic `interests` to its end,
because what the last commit covers is in it. From there on the table changes only by frames in the raw log, also when
one task ends and the next one goes on: a batch's end is none of the log's.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import cache
from pathlib import Path

from gateway.auth.trust_store import TrustStore
from gateway.config import Config, load
from gateway.config.watch import ConfigWatch, Reloaded
from gateway.core.clock import now_us
from gateway.core.event import SECOND_US
from gateway.kafka.interest_reader import InterestReader
from streaming_jobs.router_job.counts import KNOWN_IDS, KNOWN_IDS_BYTES, REBUILD_MILLISECONDS, CountFile, path_of
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.ordered_pass import OrderedPass
from streaming_jobs.router_job.plan import PlainRow
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.traces import RouterTraces

log = logging.getLogger(__name__)


class Worker:
    def __init__(self, config_path: str, state_dir: str | None = None) -> None:
        self._watch = ConfigWatch(load(Path(config_path), state_dir=state_dir), time.monotonic, Config.for_router)
        config = self._watch.config
        self._trust = TrustStore(config.trust, time.monotonic, entry=config.identity.key)
        self._state = MeshState(config, self._trust.keys, self._trust.identity, now_us)
        self._state.traces = RouterTraces.of(config)
        self._rows = FrameRouter(self._state)
        self._interests = InterestReader(config)
        self._checkpoint = Path(config.router.checkpoint)
        self._pass = OrderedPass(self._rows, self._checkpoint)
        self._counts: dict[int, CountFile] = {}
        self._preparing: threading.Thread | None = None

    def route(self, value: bytes, partition: int, offset: int) -> PlainRow:
        """Routes a record."""
        self.prepare(partition, offset)
        self._refresh()
        routed = self._pass.route(value, partition, offset, now_us() // SECOND_US)
        self._count(partition, offset)
        return routed.log_seconds, offset, routed.ids, [tuple(out) for out in routed.outs]

    def prepare(self, partition: int, offset: int) -> None:
        """Reads the memory of this place, if it is not there."""
        self._end_preparing()
        self._prepare(partition, offset)

    def forget_place(self) -> None:
        """Lets the next record read its memory."""
        self._pass.close()

    def begin_to_prepare(self, partition: int, offset: int) -> None:
        """Prepares in a thread for the record at this offset, while Spark starts the query that will bring it."""
        self._end_preparing()
        self._preparing = threading.Thread(target=self._try_to_prepare, args=(partition, offset), daemon=True)
        self._preparing.start()

    def _try_to_prepare(self, partition: int, offset: int) -> None:
        try:
            self._prepare(partition, offset)
        except Exception as failed:  # the first record meets it again, and ends the query
            log.info("not prepared: %s", failed)

    def _end_preparing(self) -> None:
        if self._preparing is not None:
            self._preparing.join()
            self._preparing = None

    def _prepare(self, partition: int, offset: int) -> None:
        if not self._pass.stands_before(partition, offset):
            self._interests.catch_up(self._state.table)
            self._pass.prepare(partition, offset)

    def _count(self, partition: int, offset: int) -> None:
        if partition not in self._counts:
            self._counts[partition] = CountFile(path_of(self._checkpoint, partition))
        known_ids = self._rows.known
        states = {
            KNOWN_IDS: len(known_ids),
            KNOWN_IDS_BYTES: known_ids.memory_bytes,
            REBUILD_MILLISECONDS: int(self._pass.rebuild_seconds * 1000),
        }
        self._counts[partition].add(offset, self._state.tally.take(), states)

    def _refresh(self) -> None:
        """Takes new settings and keys; both look at their files now and then."""
        if isinstance(change := self._watch.poll(), Reloaded):
            self._state.reconfigure(change.config)
        if self._trust.changed():
            self._state.use_keys(self._trust.keys, self._trust.identity)


class RoutePass:
    """The row function as Spark ships it: paths alone, so no key or setting ever stands in a closure."""

    def __init__(self, config_path: str, state_dir: str | None = None, gate: Gate | None = None) -> None:
        self._config_path = config_path
        self._state_dir = state_dir
        self._gate = gate
        self._outputs_from: int | None = None

    def __call__(self, value: bytes, partition: int, offset: int) -> PlainRow:
        lane = worker(self._config_path, self._state_dir)
        if self._gate is None:
            return lane.route(value, partition, offset)
        if self._outputs_from is None:
            self._outputs_from = self._pass_gate(self._gate, lane, partition, offset)
        log_seconds, offset, ids, outs = lane.route(value, partition, offset)
        if offset < self._outputs_from:
            return log_seconds, offset, ids, []
        self._gate = None
        return log_seconds, offset, ids, outs

    @staticmethod
    def _pass_gate(gate: Gate, lane: Worker, partition: int, offset: int) -> int:
        lane.prepare(partition, offset)
        outputs_from = gate.wait()
        if gate.reads_again:
            lane.forget_place()
        return outputs_from


class PreparePass:
    """Makes a lane's worker read its memory before its query has started."""

    def __init__(self, config_path: str, state_dir: str | None, partition: int, offset: int) -> None:
        self._config_path = config_path
        self._state_dir = state_dir
        self._partition = partition
        self._offset = offset

    def __call__(self, _: int) -> int:
        worker(self._config_path, self._state_dir).begin_to_prepare(self._partition, self._offset)
        return 0


@cache
def worker(config_path: str, state_dir: str | None) -> Worker:
    """Returns the one worker of this process."""
    return Worker(config_path, state_dir)

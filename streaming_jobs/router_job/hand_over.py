"""Hands lanes over from a router that is stopped to a warm standby, so that no record waits while a query starts.

    the router that is stopped                      the standby
    ends its batches with a commit, and goes on
    takes `leaves`  ──────────────────────────────► its JVM takes `begins`; it starts all lanes from that commit
                                                    each worker has read its ids, and stands at its gate
    ends its batches again, and stops  ◄─────────── takes `ready`
    gives up `jvm` and `lock`  ───────────────────► takes both, takes back the last commit, and opens the gates
                                                    routes from the first commit on, with outputs from the second on

Invariants
1. A worker routes nothing before its router has `lock` and its JVM has `jvm`. So two routers never route at once.
2. From `leaves` on the first router commits nothing until the standby is ready, or no JVM has `begins`. A query that
   starts may remove what another one is just committing.
3. A query in real time writes to its checkpoint at a batch's end alone. So the first router's lanes find theirs as they
   left it. A lane that would have to write before, for its files do not hold or much has piled up, is not begun.
4. The standby's queries know one commit, and what the first router has committed behind it is taken back. Their batch
   holds those records too: they are routed again, with the memory of exactly those before them.
5. Outputs of records that the first router has committed are in Kafka, and are left out. What it routed behind its last
   commit comes again, as after a crash.
6. Whatever fails, the standby stops what it has begun, and starts the lanes from the last commit as ever.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.core.errors import SetupError
from streaming_jobs.router_job.checkpoint import last_commit, take_back
from streaming_jobs.router_job.gate import Gate
from streaming_jobs.router_job.lock import (
    BEGINS,
    LEAVES,
    READY,
    STANDS_BY,
    WAIT_SECONDS,
    CheckpointLock,
    JvmLock,
    is_held,
    is_held_by_jvm,
)
from streaming_jobs.router_job.snapshot import must_carry_over

if TYPE_CHECKING:
    from streaming_jobs.router_job.lane import Lane

log = logging.getLogger(__name__)

BEGIN_SECONDS = 20.0
"""So long the router that leaves routes on for its standby to be ready. That takes one or two seconds at rest."""


def wait_for_standby(checkpoint: Path) -> bool:
    """Waits until a standby has begun the lanes, or will not. Returns False if no batch may be committed any more."""
    deadline = time.monotonic() + BEGIN_SECONDS
    with CheckpointLock(checkpoint, LEAVES) as leaves:
        leaves.wait(threading.Event())
        while is_held(checkpoint, STANDS_BY) or is_held_by_jvm(checkpoint, BEGINS):
            if is_held(checkpoint, READY):
                return True
            if time.monotonic() > deadline:
                log.warning("the standby is not ready: what is open comes again")
                break
            time.sleep(WAIT_SECONDS)
    return not is_held_by_jvm(checkpoint, BEGINS)


class EarlyLanes:
    """Lanes that a standby has begun, and that route nothing until their gates are open.

    Args:
        folders: the lanes' checkpoints, by number.
        gates: a folder for the lanes' gates, which must last as long as the queries.
        begins: the lock of this JVM, which it has. It is given up when the lanes route, or were stopped.
    """

    def __init__(self, folders: Sequence[Path], gates: Path, begins: JvmLock) -> None:
        self.adds_lanes = must_carry_over(folders)
        self.begun = {number for number, folder in enumerate(folders) if folder.exists()}
        """The lanes that are not added."""
        self._folders, self._gates_folder, self._begins = folders, gates, begins
        self._commits = [last_commit(folder) for folder in folders]
        self._gates = [Gate(gates / str(number), reads_again=self.adds_lanes) for number in range(len(folders))]
        self._lanes: list[Lane] = []

    def start(self, start: Callable[[int, Gate], Lane]) -> None:
        """Starts each lane with its gate. If it raises, `stop` must be called."""
        with ThreadPoolExecutor() as beside:
            started = [beside.submit(start, number, gate) for number, gate in enumerate(self._gates)]
        self._lanes += [lane.result() for lane in started if lane.exception() is None]
        for lane in started:
            lane.result()

    def are_ready(self) -> bool:
        """True once each lane's worker stands at its gate. Raises SetupError if a query has ended."""
        self.check()
        return all(gate.has_worker() for gate in self._gates)

    def check(self) -> None:
        """Raises SetupError if a query has ended."""
        for lane in self._lanes:
            if (failure := lane.failure()) is not None:
                raise SetupError(f"{lane.name} ended: {failure}")

    def open(self) -> list[Lane]:
        """Takes back what was committed since the lanes were begun, and lets them route."""
        for number, (gate, folder, commit) in enumerate(zip(self._gates, self._folders, self._commits, strict=True)):
            gate.open(take_back(folder, commit, number))
        self._begins.release()
        return self._lanes

    def stop(self) -> None:
        """Stops the lanes. They have routed nothing."""
        shutil.rmtree(self._gates_folder)
        for lane in self._lanes:
            lane.stop()
        self._begins.release()

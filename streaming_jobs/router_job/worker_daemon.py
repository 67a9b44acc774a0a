"""The process Spark forks its Python workers from, with everything they need imported before the fork.

A worker then begins in milliseconds instead of a second and a half, and shares its modules' memory with the others.
Nothing imported here may start a thread: a fork copies locks, but not the threads that would release them.

A worker reads, computes and answers in one thread. In real time pyspark would have a second one read ahead, which costs
a change of threads for each record and finds nothing to read; that only the JVM's end writes and reads at once is what
keeps either from waiting for the other.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Callable, Iterable
from typing import IO, Any

import kafka  # noqa: F401 - the first record of each worker asks Kafka for the interests
import pyspark.worker
from pyspark import daemon
from pyspark.serializers import BatchedSerializer

import streaming_jobs.router_job.plan
import streaming_jobs.router_job.worker  # noqa: F401
from gateway.local.processes import ends_with_parent
from gateway.protocols import protocols

YOUNG_OBJECTS = 20_000
"""Made before the collector looks for cycles among them: at the usual 700 it takes a twentieth of a busy worker's
time."""
READS_AHEAD = "SPARK_PIPELINED_UDF"
"""Set by the JVM for a query in real time."""


class ImmediateExit(BatchedSerializer):
    """Each batch leaves when it is made, in one write. What our functions return any pickler can write: pyspark's own,
    in Python, takes five times as long."""

    def dump_stream(self, iterator: Iterable[Any], stream: IO[bytes]) -> None:
        for batch in self._batched(iterator):  # type: ignore[no-untyped-call]
            pickled = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
            stream.write(len(pickled).to_bytes(4, "big") + pickled)
            stream.flush()


def unless_hung_up(worker: Callable[[Any, bool], int]) -> Callable[[Any, bool], int]:
    """Returns the worker, which ends quietly if the JVM hangs up: it then wants no more of a task, and that is no
    fault."""

    def ends(sock: Any, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1

    return ends


if __name__ == "__main__":
    protocols()
    os.environ.pop(READS_AHEAD, None)
    pyspark.worker.BatchedSerializer = ImmediateExit  # type: ignore[attr-defined]
    # A worker whose daemon was killed would go on, known to nobody but the JVM.
    os.register_at_fork(after_in_child=ends_with_parent(signal.SIGKILL))
    gc.freeze()  # what was imported stays
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    daemon.worker = unless_hung_up(daemon.worker)  # type: ignore[assignment]
    daemon.manager()

"""The process Spark forks its Python workers from, with everything they need imported before the fork.

A worker then begins in milliseconds instead of a second and a half, and shares its modules' memory with the others.
Nothing imported here may start a thread: a fork copies locks, but not the threads that would release them.
"""

from __future__ import annotations

import os
import signal

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy's BLAS starts its threads when it is imported

import pyspark.worker  # noqa: F401 - imported to be there after the fork
from pyspark import daemon

import streaming_jobs.router.plan
import streaming_jobs.router.worker  # noqa: F401
from gateway.embedded.processes import ends_with_parent
from gateway.protocols import protocols

if __name__ == "__main__":
    protocols()
    # A worker whose daemon was killed would go on, known to nobody but the JVM.
    os.register_at_fork(after_in_child=ends_with_parent(signal.SIGKILL))
    daemon.manager()

"""Sets what an edge asks of the system for its own process before it begins: open files, and memory that goes back.

A session's unfinished frame may take a megabyte. glibc begins by asking the system for each such block, and gives it
back when it is freed. But once it has freed one, it takes blocks of that size from its heap, which shrinks only at its
end. So a thousand frames that were cut leave a heap of several hundred megabytes, for as long as one byte at its end is
in use.
"""

from __future__ import annotations

import ctypes
import resource
from math import inf

LARGE_BLOCK_BYTES = 131_072
"""glibc's own threshold in the beginning."""
_M_MMAP_THRESHOLD = -3

OTHER_FILES = 256
"""Files that are no session of a peer: Kafka's, those of links and listeners, of peers that are turned away, and the
configuration's. An edge whose sessions take these too loses Kafka, and with it everybody."""


def return_large_blocks() -> bool:
    """Has each large block taken from the system and given back to it. Returns False where that cannot be chosen."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES))


def allow_many_files() -> None:
    """Raises the number of open files to what the process may have. Many systems give 1,024 to begin with, which a
    single listener may use up ten times over."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def most_connections() -> float:
    """Returns how many connections the open files leave room for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return inf if files == resource.RLIM_INFINITY else max(files - OTHER_FILES, files // 2)

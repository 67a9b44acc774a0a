"""Asks the system for what an edge needs of it for its own process: open files, and that freed memory goes back.

A session's unfinished frame may take a megabyte. glibc takes such blocks from its heap, which shrinks only at its end.
So a thousand frames that were cut leave a heap of several hundred megabytes, for as long as one byte at its end is in
use. (To have the system hand out each large block by itself is no way out: the compression of each record takes one,
and its pages cost a third of the edge's processor time.)
"""

from __future__ import annotations

import ctypes
import resource
from math import inf

OTHER_FILES = 256
"""Files that are no session of a peer: Kafka's, those of links and listeners, of peers that are turned away, and the
configuration's. An edge whose sessions take these too loses Kafka, and with it everybody."""


def return_freed_memory() -> bool:
    """Gives freed memory back to the system. Returns False where that is not to be had: not every system has glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return malloc_trim is not None and bool(malloc_trim(0))


def allow_many_files() -> None:
    """Raises the number of open files to what the process may have. Many systems give 1,024 to begin with, which a
    single listener may use up ten times over."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def most_connections() -> float:
    """Returns how many connections the open files leave room for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return inf if files == resource.RLIM_INFINITY else max(files - OTHER_FILES, files // 2)

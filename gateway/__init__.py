"""Meshgate: one event mesh for five small messaging protocols, routed by Spark Structured Streaming."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - pip refuses it; a checkout can be run by any
    sys.exit("Meshgate needs Python 3.11 or newer, and this is Python %d.%d" % sys.version_info[:2])  # noqa: UP031

__version__ = "0.2.0"

"""Says first that a Python is too old: an older pip names some package instead. All else is in pyproject.toml."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - that is what it is for
    sys.exit("Meshgate needs Python 3.11 or newer, and this is Python %d.%d" % sys.version_info[:2])  # noqa: UP031

from setuptools import setup

setup()

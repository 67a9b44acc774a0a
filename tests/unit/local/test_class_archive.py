"""The class archive: what one JVM listed, a second one archives, and later ones map."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.local.class_archive import KEPT, REST_SECONDS, WRITE_BYTES, ClassArchive, wait_for_rest
from gateway.local.java import Java, find_java

JAVA = Java("/opt/java/bin/java", 17, "JAVA_HOME")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MESHGATE_CACHE", str(tmp_path))
    return tmp_path


def archived(archive: ClassArchive, *, age: int = 0) -> None:
    archive.path.parent.mkdir(exist_ok=True)
    archive.path.write_bytes(b"classes")
    os.utime(archive.path, (age, age))


def written_by(archive: ClassArchive) -> bool:
    assert archive.options(lists=True) == [f"-XX:DumpLoadedClassList={archive.list_path}"]
    archive.list_path.write_text("java/lang/Object\njava/lang/Str")
    return archive.write()


def java_that(folder: Path, exit_code: int) -> Java:
    """A program stands for the JVM that archives: it writes what it was given as the list, and ends so."""
    program = folder / "java"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "option = dict(each.split('=', 1) for each in sys.argv if '=' in each)\n"
        "open(option['-XX:SharedArchiveFile'], 'w').write(open(option['-XX:SharedClassListFile']).read())\n"
        f"sys.exit({exit_code})\n"
    )
    program.chmod(0o755)
    return Java(str(program), 17, "test")


def test_a_run_that_lists_nothing_asks_for_nothing() -> None:
    assert ClassArchive("spark", JAVA, ["a.jar"]).options(lists=False) == []


def test_what_one_run_listed_the_next_one_uses(tmp_path: Path) -> None:
    java = java_that(tmp_path, 0)
    archive = ClassArchive("spark", java, ["a.jar"])
    assert written_by(archive)
    assert archive.path.read_text() == "java/lang/Object\n"  # without the half line
    assert [path.name for path in archive.path.parent.iterdir()] == [archive.path.name]
    assert f"-XX:SharedArchiveFile={archive.path}" in ClassArchive("spark", java, ["a.jar"]).options(lists=True)


def test_a_jvm_that_could_not_archive_leaves_nothing(tmp_path: Path) -> None:
    archive = ClassArchive("spark", java_that(tmp_path, 1), ["a.jar"])
    assert not written_by(archive)
    assert list(archive.path.parent.iterdir()) == []


def test_without_memory_to_spare_none_is_written(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(f"MemAvailable: {WRITE_BYTES // 1024 - 1} kB\n")
    archive = ClassArchive("spark", java_that(tmp_path, 0), ["a.jar"])
    archive.options(lists=True)
    assert not archive.write(tmp_path)
    assert list(archive.path.parent.iterdir()) == []


def test_a_run_that_had_an_archive_writes_none() -> None:
    archive = ClassArchive("spark", JAVA, ["a.jar"])
    archived(archive)
    assert not archive.write()


def test_another_program_java_or_class_path_is_another_archive(tmp_path: Path) -> None:
    paths = {
        ClassArchive(name, java, [jars]).path
        for name in ("spark", "broker")
        for java in (JAVA, Java("/opt/java/bin/java", 21, "JAVA_HOME"))
        for jars in ("a.jar", "b.jar")
    }
    assert len(paths) == 8
    before = ClassArchive("spark", JAVA, [f"{tmp_path}/*"]).path
    (tmp_path / "new.jar").touch()
    assert ClassArchive("spark", JAVA, [f"{tmp_path}/*"]).path != before


def test_a_jar_that_was_installed_again_is_another_archive(tmp_path: Path) -> None:
    """The JVM holds size and time of each jar against those of the archive, and else starts without any."""
    jar = tmp_path / "a.jar"
    jar.touch()
    paths = {ClassArchive("spark", JAVA, [entry]).path for entry in (str(jar), f"{tmp_path}/*")}
    os.utime(jar, (1_000, 1_000))
    paths |= {ClassArchive("spark", JAVA, [entry]).path for entry in (str(jar), f"{tmp_path}/*")}
    assert len(paths) == 4


def test_only_the_newest_stay_and_what_killed_runs_left_goes(tmp_path: Path) -> None:
    for age in range(KEPT + 3):
        archived(ClassArchive("spark", JAVA, [f"{age}.jar"]), age=age)
    left = ClassArchive("spark", JAVA, ["z.jar"], pid=2**22 + 1).list_path
    left.touch()
    other = ClassArchive("broker", JAVA, ["z.jar"], pid=os.getpid()).list_path
    other.touch()
    archive = ClassArchive("spark", java_that(tmp_path, 0), ["a.jar"])
    assert written_by(archive)
    assert archive.path.exists()
    assert not left.exists()
    assert other.exists()  # of a run that goes on
    assert len(list(archive.path.parent.glob("*.jsa"))) == KEPT


def test_where_nothing_can_be_written_nothing_is_listed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "a file").touch()
    monkeypatch.setenv("MESHGATE_CACHE", str(cache / "a file"))
    archive = ClassArchive("spark", JAVA, ["a.jar"])
    assert archive.options(lists=True) == []
    assert not archive.write()


@pytest.mark.integration
def test_a_real_jvm_takes_what_another_has_archived(tmp_path: Path) -> None:
    java = find_java()
    archive = ClassArchive("empty", java, [str(tmp_path / "none.jar")])
    (archive.path.parent).mkdir()
    program = ["-cp", str(tmp_path / "none.jar"), "-version"]
    subprocess.run([java.executable, *archive.options(lists=True), *program], check=True, capture_output=True)
    assert archive.write()
    shown = [option for option in archive.options(lists=False) if not option.startswith("-Xlog")]
    options = ["-Xshare:on" if option == "-Xshare:auto" else option for option in shown]
    subprocess.run([java.executable, *options, *program], check=True, capture_output=True)


class Cores(threading.Event):
    """Stands for a mesh's life on two cores: each time somebody waits, they were idle for so many seconds."""

    def __init__(self, root: Path, *idle_seconds: float) -> None:
        super().__init__()
        self._stat = root / "proc/stat"
        self._stat.parent.mkdir()
        self._idle_seconds = 5000.0
        self._to_come = list(idle_seconds)
        self._write()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == REST_SECONDS
        if not self._to_come:
            return True
        self._idle_seconds += self._to_come.pop(0)
        self._write()
        return False

    def _write(self) -> None:
        ticks = int(self._idle_seconds * os.sysconf("SC_CLK_TCK"))
        self._stat.write_text(f"cpu  42 0 7 {ticks} 3 0 0 0 0 0\ncpu0 42 0 7 {ticks // 2} 3 0 0 0 0 0\n")


def test_it_is_written_once_a_core_was_free_for_some_time(tmp_path: Path) -> None:
    cores = Cores(tmp_path, 0, REST_SECONDS / 2, 2 * REST_SECONDS, 0)
    assert wait_for_rest(cores, tmp_path)
    assert cores.wait(REST_SECONDS) is False  # it has not waited for what came after


def test_a_mesh_that_is_never_at_rest_writes_none(tmp_path: Path) -> None:
    assert not wait_for_rest(Cores(tmp_path, 0, REST_SECONDS * 0.9), tmp_path)

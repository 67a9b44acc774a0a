"""`up`: the configuration that it takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.cli.console import Exit, Output
from gateway.cli.up import _print_line
from gateway.config import load
from gateway.core.errors import SetupError
from gateway.edge.server import Edge
from gateway.local.jar_fetch import Pin
from gateway.local.jars import JarSet
from gateway.local.mesh import LocalMesh
from gateway.local.processes import Processes
from tests.unit.cli.running import run


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """An empty folder to stand in, and nothing is started: configuration and state folder of what would be."""
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[str, str]] = []

    def note(mesh: LocalMesh, _: object) -> None:
        config = mesh._config
        seen.append((str(config.path.relative_to(tmp_path)), str(config.state_dir.relative_to(tmp_path))))

    monkeypatch.setattr(LocalMesh, "run", note)
    return seen


@pytest.mark.parametrize(
    ("there", "arguments", "expected"),
    [
        ([], [], ("mesh/meshgate.yaml", "mesh")),
        ([], ["--dir", "x"], ("x/meshgate.yaml", "x")),
        (["meshgate.yaml"], [], ("meshgate.yaml", ".")),
        (["meshgate.yaml", "mesh/meshgate.yaml"], [], ("meshgate.yaml", ".")),
        (["mesh/meshgate.yaml"], [], ("mesh/meshgate.yaml", "mesh")),
        (["meshgate.yaml"], ["--dir", "x"], ("meshgate.yaml", "x")),
        (["meshgate.yaml", "x/meshgate.yaml"], ["--dir", "x"], ("x/meshgate.yaml", "x")),
        (["mesh/meshgate.yaml"], ["--dir", "x"], ("x/meshgate.yaml", "x")),
        (["y/other.yaml"], ["-c", "y/other.yaml", "--dir", "x"], ("y/other.yaml", "x")),
    ],
)
def test_it_takes_the_configuration_that_is_there_or_writes_one(
    begun: list[tuple[str, str]], there: list[str], arguments: list[str], expected: tuple[str, str]
) -> None:
    for path in map(Path, there):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mesh: mine")
    assert run("up", *arguments).exit_code == 0
    assert begun == [expected]


def test_a_hangup_ends_nothing_while_there_is_its_terminal_or_never_was_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hung_up(_: LocalMesh, stop: threading.Event) -> None:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalMesh, "run", hung_up)
    assert run("up").exit_code == 0


@pytest.mark.parametrize("part", ["kafka", "router", "rules", "edge"])
def test_each_part_keeps_its_state_where_it_is_told(tmp_path: Path, part: str) -> None:
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    mesh = LocalMesh(load(tmp_path / "meshgate.yaml", state_dir=tmp_path / "x"), lambda _said, _text: None)
    arguments = mesh._part(part).arguments
    at = arguments.index("--dir")
    assert arguments[at + 1] == str(tmp_path / "x")
    assert run(*arguments, "--help").exit_code == 0


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_its_parts_log_as_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: str) -> None:
    seen: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalMesh, "run", lambda mesh, _stop: seen.extend(mesh._part("rules").arguments))
    assert run("up", "--log-format", log_format).exit_code == 0
    assert seen[-3:] == ["-v", "--log-format", log_format]
    assert run(*seen, "--help").exit_code == 0


def test_a_change_that_needs_a_restart_or_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "meshgate.yaml"
    file.write_text("mesh: mine")
    heard: list[tuple[object, str]] = []
    mesh = LocalMesh(load(file), lambda said, text: heard.append((said, text)))
    for text in ("mesh: other", "mesh: [", "mesh: mine"):
        file.write_text(text)
        mesh._settings.ask()
        mesh._follow_file()
    (restart, told), (broken, _) = heard
    why = "a change of mesh needs a restart"
    assert (restart, told) == ({"event": "not_reloaded", "because": why}, f"not reloaded: {why}")
    assert isinstance(broken, dict)
    assert broken["because"].startswith(f"{file}:2: no YAML")


@pytest.mark.parametrize("part", ["edge", "router"])
def test_a_management_address_without_a_port_is_a_fault(tmp_path: Path, part: str) -> None:
    file = tmp_path / "meshgate.yaml"
    file.write_text(f"{{mesh: mine, {part}: {{management: '127.0.0.1:0'}}}}")
    result = run("up", "-c", str(file))
    assert result.exit_code == Exit.CONFIG
    assert f"meshgate: {file}: {part}.management: expected a port from 1 to 65535" in result.stderr


@pytest.mark.parametrize(
    ("verb", "files", "setting"),
    [
        (["up"], [], "listeners[0].tls.cert"),
        (["up"], ["it.pem", "it.key"], "listeners[0].tls"),
        (["up", "--detach"], ["it.pem", "it.key"], "listeners[0].tls"),
        (["edge"], [], "listeners[0].tls.cert"),
    ],
)
def test_files_that_an_edge_could_not_use_are_faults_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], files: list[str], setting: str
) -> None:
    monkeypatch.setattr(Edge, "run", None)
    monkeypatch.setattr(LocalMesh, "run", None)
    monkeypatch.setattr(subprocess, "Popen", None)
    file = tmp_path / "meshgate.yaml"
    listener = "name: plc, protocol: hsp, listen: 'tls://127.0.0.1:5141', tls: {cert: it.pem, key: it.key}"
    file.write_text(f"{{mesh: mine, listeners: [{{{listener}}}]}}")
    for name in files:
        (tmp_path / name).write_text("no PEM")
    result = run(*verb, "-c", str(file))
    assert result.exit_code == Exit.CONFIG
    assert f"meshgate: {file}: {setting}: " in result.stderr


def test_a_full_disk_is_told_before_anything_is_written_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the mesh goes to that disk, too, and its failure would name no folder."""
    file = tmp_path / "meshgate.yaml"
    file.write_text("mesh: mine")
    monkeypatch.setattr("gateway.local.broker.MIN_FREE_BYTES", 2**70)
    monkeypatch.setattr(Processes, "note", None)
    result = run("up", "-c", str(file))
    assert result.exit_code == Exit.UNAVAILABLE
    assert f"{tmp_path}/state has" in result.stderr


UNHEARD = """
import sys
from gateway.cli import main
from gateway.local.jar_fetch import Pin
from gateway.local.jars import JarSet
from gateway.local.mesh import LocalMesh

def run(mesh, stop):
    mesh._report_done("kafka", "heard")
    sys.stdin.read()  # until the reader has gone
    for _ in range(3):
        mesh._report_done("edge", "unheard")
    print("went on", file=sys.stderr)

LocalMesh.run = run
main(["up"])
"""


def test_it_goes_on_when_nobody_reads_what_it_says_any_more(tmp_path: Path) -> None:
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        [sys.executable, "-c", UNHEARD], cwd=tmp_path, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as up:  # fmt: skip
        assert up.stdout is not None
        assert up.stdin is not None
        assert up.stderr is not None
        assert "heard" in up.stdout.readline()
        up.stdout.close()
        up.stdin.close()
        told = up.stderr.read()
    assert (told, up.returncode) == ("went on\n", 0)


def test_who_ends_it_is_told_at_once_and_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[object, str]] = []
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    mesh = LocalMesh(load(tmp_path / "meshgate.yaml"), lambda said, text: told.append((said["event"], text)))
    monkeypatch.setattr("gateway.local.mesh.refuse_a_start", lambda _config: None)  # a mesh may run on this machine
    monkeypatch.setattr(mesh, "_prepare", lambda: None)
    monkeypatch.setattr(mesh, "_start_parts", lambda _stop: None)
    monkeypatch.setattr(Processes, "end_all", lambda _, _seconds: told.append(("ended", "")))
    stop = threading.Event()
    stop.set()
    mesh.run(stop)
    stopping = f"stopping (state stays in {tmp_path}; the next up goes on from it)"
    assert told == [("stopping", stopping), ("ended", ""), ("stopped", "stopped")]


def test_what_ends_by_itself_says_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    mesh = LocalMesh(load(tmp_path / "meshgate.yaml"), lambda said, _text: told.append(said["event"]))

    def broken() -> None:
        raise SetupError("there is no java")

    monkeypatch.setattr(mesh, "_prepare", broken)
    with pytest.raises(SetupError):
        mesh.run(threading.Event())
    assert told == []


def test_what_happens_is_a_line_of_json_each_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalMesh, "run", lambda mesh, _stop: mesh._report_done("kafka", "127.0.0.1:9092"))
    written, came_up = map(json.loads, run("up", "--output", "json").stdout.splitlines())
    assert written == {"event": "wrote", "path": "mesh/meshgate.yaml"}
    assert came_up == {"event": "up", "part": "kafka", "seconds": came_up["seconds"], "detail": "127.0.0.1:9092"}


def test_a_file_gets_the_beginning_and_the_end_of_a_fetch(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "meshgate.yaml").write_text("mesh: mine")
    mesh = LocalMesh(load(tmp_path / "meshgate.yaml"), lambda said, text: _print_line(said, Output.TEXT, text))
    jars = JarSet("test", (Pin("a:b:1", "00", 2_000_000),))
    for done in (0, 500_000, 1_000_000, 2_000_000):
        mesh._fetching(jars, done, jars.size_bytes)
    assert capsys.readouterr().out.splitlines() == [
        "fetching the test jars [------------------------------]   0.0 of 2.0 MB",
        "fetching the test jars [##############################]   2.0 of 2.0 MB",
    ]

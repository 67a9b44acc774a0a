"""`status`, `logs`, `down` and `up --detach`: the mesh that runs in a folder of this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.cli.console import Exit
from gateway.cli.logs import LogTail, PartLog, merged
from gateway.local.mesh_record import MeshRecord, RecordedProcess, start_time
from tests.unit.cli.running import run, said

SUPERVISOR = """
import signal, sys, threading
from pathlib import Path
from gateway.local.processes import Processes

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
processes = Processes(Path(sys.argv[1]))
processes.note(config="meshgate.yaml", management={"edge": sys.argv[2]}, ready={"apps": "tcp://127.0.0.1:5042"})
print("running", flush=True)
stop.wait()
processes.end_all()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mesh's folder to stand in; its configuration is broken, which none of these verbs minds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meshgate.yaml").write_text("mesh: [")
    (tmp_path / "state" / "logs").mkdir(parents=True)
    return tmp_path


class Readiness(BaseHTTPRequestHandler):
    answer = (200, b'{"status": "ok", "missing": {}}')

    def do_GET(self) -> None:
        status, body = self.answer if self.path == "/healthz/ready" else (404, b"{}")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def edge() -> Iterator[ThreadingHTTPServer]:
    """An edge's management address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Readiness) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def running(folder: Path, edge: ThreadingHTTPServer) -> Iterator[subprocess.Popen[str]]:
    """A supervisor whose part, the edge, is the test itself."""
    record = folder / "state" / "running.json"
    address = f"127.0.0.1:{edge.server_address[1]}"
    with subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, record, address], stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3])},
    ) as supervisor:  # fmt: skip
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "running\n"
        yield supervisor
        supervisor.terminate()


def with_part(folder: Path, pid: int, started: int | None) -> None:
    path = folder / "state" / "running.json"
    record = MeshRecord.read(path)
    assert record is not None
    MeshRecord(record.supervisor, (RecordedProcess("edge", pid, started),), record.facts).write(path)


class TestStatus:
    @pytest.mark.usefixtures("folder")
    def test_where_no_mesh_runs_it_says_so_and_fails(self) -> None:
        result = run("status")
        assert result.exit_code == Exit.FAILURE
        assert result.stdout == "no mesh is running in .: start one with meshgate up\n"
        assert said(run("status", "--output", "json")) == {"dir": ".", "running": False, "ready": False, "parts": []}

    def test_a_mesh_whose_parts_are_ready_is_ready(self, folder: Path, running: subprocess.Popen[str]) -> None:
        with_part(folder, running.pid, start_time(running.pid))
        result = run("status", "--output", "json")
        assert result.exit_code == Exit.OK
        document = said(result)
        assert (document["ready"], document["pid"]) == (True, running.pid)
        assert document["listeners"] == {"apps": "tcp://127.0.0.1:5042"}
        assert [(part["part"], part["state"]) for part in document["parts"]] == [("edge", "ready")]
        assert "apps tcp://127.0.0.1:5042" in run("status").stdout

    def test_a_part_that_lacks_something_says_what(
        self, folder: Path, running: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with_part(folder, running.pid, start_time(running.pid))
        lacking = b'{"status": "missing", "missing": {"produce": "no probe acknowledged"}}'
        monkeypatch.setattr(Readiness, "answer", (503, lacking))
        result = run("status")
        assert result.exit_code == Exit.FAILURE
        assert result.stdout.startswith("not ready")
        assert "produce: no probe acknowledged" in result.stdout

    def test_a_part_that_died_is_down(self, folder: Path, running: subprocess.Popen[str]) -> None:
        with_part(folder, running.pid, 1)
        (part,) = said(run("status", "--output", "json"))["parts"]
        assert (part["state"], part["pid"]) == ("down", None)


class TestDown:
    @pytest.mark.usefixtures("folder")
    def test_where_no_mesh_runs_there_is_nothing_to_do(self) -> None:
        result = run("down")
        assert (result.exit_code, result.stdout) == (Exit.OK, "no mesh is running in .\n")

    def test_it_waits_until_the_mesh_has_ended_in_order(self, folder: Path, running: subprocess.Popen[str]) -> None:
        result = run("down", "--output", "json")
        assert (result.exit_code, said(result)) == (Exit.OK, {"dir": ".", "stopped": True, "cleared": []})
        assert not (folder / "state" / "running.json").exists()
        assert running.wait() == 0

    def test_what_a_killed_supervisor_left_is_ended(self, folder: Path) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as left:
            part = RecordedProcess("edge", left.pid, start_time(left.pid))
            MeshRecord(RecordedProcess("up", left.pid, 1), (part,)).write(folder / "state" / "running.json")
            assert run("down").stdout == "ended what an earlier run had left: edge\n"
        assert left.returncode == -15


class TestLogs:
    def test_each_line_stands_after_its_part(self, folder: Path) -> None:
        (folder / "state/logs/edge.log").write_text("one\ntwo\x1b[2J\n")
        (folder / "state/logs/router.log").write_text("three\n")
        assert run("logs").stdout == "edge   | one\nedge   | two\\x1b[2J\nrouter | three\n"
        assert run("logs", "edge", "-n", "1").stdout == "two\\x1b[2J\n"
        expected = '{"part": "router", "line": "three", "time": null}\n'
        assert run("logs", "router", "--output", "json").stdout == expected

    def test_the_logs_of_all_parts_are_merged_by_time(self, folder: Path) -> None:
        logs = folder / "state/logs"
        (logs / "edge.log").write_text(
            "2026-01-02T10:00:02.000Z info b\n  below b\n2026-01-02T10:00:01.999Z info late\n"
        )
        (logs / "kafka.log").write_text("2026-01-02T10:00:01.500Z warn a\n2026-01-02T10:00:03.000Z warn d\n")
        (logs / "router.log").write_text('first\n{"time": "2026-01-02T10:00:02.500Z", "message": "c"}\n')
        lines = [line.partition(" | ")[2] for line in run("logs").stdout.splitlines()]
        assert [line.rpartition(" ")[2] for line in lines] == ["first", "a", "b", "b", "late", '"c"}', "d"]
        documents = map(json.loads, run("logs", "-n", "1", "--output", "json").stdout.splitlines())
        assert [(one["part"], one["time"]) for one in documents] == [
            ("edge", "2026-01-02T10:00:02.000Z"),
            ("router", "2026-01-02T10:00:02.500Z"),
            ("kafka", "2026-01-02T10:00:03.000Z"),
        ]

    def test_a_part_without_a_log_is_told_with_those_there_are(self, folder: Path) -> None:
        assert run("logs").exit_code == Exit.FAILURE
        (folder / "state/logs/edge.log").write_text("one\n")
        result = run("logs", "kafka")
        assert result.exit_code == Exit.FAILURE
        assert "there is no log of kafka in state/logs: expected edge\n" in result.stderr

    def test_who_follows_a_log_sees_what_is_added_until_ctrl_c(self, folder: Path) -> None:
        log = folder / "state/logs/edge.log"
        log.write_text("one\n")
        environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "gateway.cli", "logs", "edge", "-f"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        ) as following:  # fmt: skip
            try:
                assert following.stdout is not None
                assert following.stdout.readline() == "one\n"
                with log.open("a") as added:
                    added.write("two\n")
                assert following.stdout.readline() == "two\n"
                following.send_signal(signal.SIGINT)
                assert following.wait(30) == Exit.INTERRUPTED
            finally:
                following.kill()

    def test_who_follows_all_sees_what_was_written_at_once_in_its_order(self, folder: Path) -> None:
        logs = [folder / "state/logs" / name for name in ("edge.log", "kafka.log")]
        for log in logs:
            log.write_text("")
        tails = [PartLog(log.stem, LogTail(log)) for log in logs]
        logs[0].write_text("2026-01-02T10:00:02.000Z two\n")
        logs[1].write_text("2026-01-02T10:00:01.000Z one\n")
        assert [at.line[-3:] for at in merged(tails, PartLog.new_lines)] == ["one", "two"]
        assert merged(tails, PartLog.new_lines) == []

    def test_what_is_added_is_followed_by_whole_lines_even_after_the_log_was_cut(self, tmp_path: Path) -> None:
        path = tmp_path / "edge.log"
        tail = LogTail(path)
        assert list(tail.new_lines()) == []
        path.write_text("one\ntw")
        assert list(tail.new_lines()) == ["one"]
        with path.open("a") as log:
            log.write("o\nthree\n")
        assert list(tail.new_lines()) == ["two", "three"]
        path.write_text("cut\n")
        assert list(tail.new_lines()) == ["cut"]


class TestDetached:
    def test_an_up_that_fails_gives_its_error_and_its_code(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
        (folder / "meshgate.yaml").write_text("{mesh: mine, edge: {management: '127.0.0.1:0'}}")
        result = run("up", "--detach")
        assert result.exit_code == Exit.CONFIG
        assert "edge.management: expected a port from 1 to 65535" in result.stderr
        assert "edge.management" in run("logs", "up").stdout

    def test_a_full_disk_is_told_where_nothing_could_be_logged(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (folder / "meshgate.yaml").write_text("mesh: mine")
        monkeypatch.setattr("gateway.local.broker.MIN_FREE_BYTES", 2**70)
        monkeypatch.setattr(subprocess, "Popen", None)
        result = run("up", "--detach")
        assert result.exit_code == Exit.UNAVAILABLE
        assert f"{folder}/state has" in result.stderr
        assert "make room" in result.stderr

    def test_a_second_one_is_refused_while_the_first_runs(self, folder: Path, running: subprocess.Popen[str]) -> None:
        (folder / "meshgate.yaml").write_text("mesh: mine")
        result = run("up", "--detach")
        assert result.exit_code == Exit.UNAVAILABLE
        assert f"already (process {running.pid})" in result.stderr


def test_the_folder_that_is_named_is_looked_in(tmp_path: Path) -> None:
    assert run("status", "--dir", str(tmp_path)).stdout.startswith(f"no mesh is running in {tmp_path}")

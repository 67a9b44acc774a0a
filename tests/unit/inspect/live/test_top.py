"""`meshgate top`: its screen, and parts that go away and come back."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.console import Exit
from gateway.cli.top_text import WIDTH, painted, plain, screen
from gateway.core.address import HostPort
from gateway.inspect.live.flow import flow
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.inspect.live.metrics_poller import MetricsPoller, samples_source
from tests.integration.mesh import free_port
from tests.unit.cli.running import run
from tests.unit.inspect.live.parts import answering, edge, router
from tests.unit.inspect.live.test_flow import look


def said(**more: Any) -> dict[str, Any]:
    found = flow(look(100.0, a=edge(100), r=router(5)), look(101.0, a=edge(1_234), r=router(17)))
    return {"mesh": "test", "at": "2026-01-31T12:00:00Z", "trouble": "", **found, "subjects": [], "nodes": []} | more


def shown(document: dict[str, Any]) -> str:
    return "\n".join(plain(screen(document)))


def test_a_screen_shows_the_stages_side_by_side() -> None:
    lines = shown(said()).splitlines()
    assert lines[2].split() == ["flow", "received", "logged", "decoded", "events", "routed", "delivered"]
    assert lines[3].split()[2:] == ["1,134", "-", "-", "12", "-", "-"]
    assert lines[5].split() == ["left", "out", "dropped", "refused", "rejected", "duplicates", "undelivered"]
    assert next(line for line in lines if line.startswith("devices")).split()[:4] == ["devices", "emm", "-", "1,134"]


def test_no_line_is_wider_than_a_terminal_however_long_a_peer_s_words_are() -> None:
    long = "x" * 300
    subjects = [{"subject": long, "seen": 1, "share": 1.0, "per_second": 1e12}]
    lines = screen(said(subjects=subjects, missing={"edge": long}, trouble=long))
    assert max(len(line) for line in plain(lines)) == WIDTH


def test_what_peers_say_does_not_steer_the_terminal() -> None:
    subjects = [{"subject": "a\x1b[2Jb", "seen": 1, "share": 1.0, "per_second": None}]
    assert "\x1b" not in shown(said(subjects=subjects))


def test_a_node_is_shown_by_what_people_call_it() -> None:
    nodes = [
        {"node": "9a1f4c3e-1111", "label": "garden sensor", "seen": 3, "share": 0.75, "per_second": 3.0},
        {"node": "cn:plant-1", "label": None, "seen": 1, "share": 0.25, "per_second": 1.0},
    ]
    lines = shown(said(nodes=nodes)).splitlines()
    assert [line.split("  ")[0] for line in lines[-2:]] == ["garden sensor (9a1f4c3e-1111)", "cn:plant-1"]


def test_headings_and_trouble_stand_out_and_are_cut_to_the_terminal() -> None:
    assert painted("#heading", 4) == "\x1b[1mhead\x1b[0m"
    assert painted("!gone", 80) == "\x1b[31mgone\x1b[0m"
    assert painted("plain", 3) == "pla"


def test_what_is_missing_is_said_at_the_top() -> None:
    assert shown(said(missing={"router": "it is away"})).splitlines()[1] == "it is away"


def test_a_part_may_go_away_and_come_back() -> None:
    port = free_port()
    edge_part = MeshPart("the edge", "edge.management", HostPort("127.0.0.1", port))
    looking = MetricsPoller({"edge": samples_source(edge_part)})
    with answering(edge(100), port):
        assert looking.look()["stages"]["received"]["total"] == 100
    assert "does not answer" in looking.look()["missing"]["edge"]
    with answering(edge(7), port) as again:
        assert looking.look()["missing"] == {}
        again.text = edge(9)
        assert looking.look()["stages"]["received"]["per_second"] > 0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Looks at a mesh whose Kafka is not there."""
    file = tmp_path / "meshgate.yaml"
    file.write_text(f"{{mesh: test, kafka: {{listen: '127.0.0.1:{free_port()}'}}}}")
    return file


def test_where_nothing_answers_it_ends_and_says_what_it_asked(config: Path) -> None:
    result = run("top", "-c", str(config), "--edge", "127.0.0.1:1", "--router", "127.0.0.1:1")
    assert result.exit_code == Exit.UNAVAILABLE
    [line] = result.stderr.splitlines()
    assert "--edge 127.0.0.1:1 does not answer" in line
    assert "--router 127.0.0.1:1 does not answer" in line


def alone(*arguments: str) -> str:
    """In a process of its own: a Kafka client that finds no broker leaves its sockets to the collector."""
    line = [sys.executable, "-m", "gateway.cli", "top", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == Exit.OK, done.stderr
    return done.stdout


def test_it_shows_what_there_is_when_the_router_and_kafka_are_away(config: Path) -> None:
    with answering(edge(5)) as told:
        away = ("-c", str(config), "--edge", f"127.0.0.1:{told.port}", "--router", "127.0.0.1:1", "--interval", "0.2")
        text = alone("--once", *away)
        assert "--router 127.0.0.1:1 does not answer" in text
        assert "devices" in text
        assert "\x1b" not in text
        lines = alone("-n", "2", "--output", "json", *away).splitlines()
        assert [json.loads(line)["stages"]["received"]["total"] for line in lines] == [5, 5]


def test_a_terminal_gets_its_other_screen_and_its_own_back(config: Path) -> None:
    with answering(edge(5)) as told:
        at = f"127.0.0.1:{told.port}"
        command = [sys.executable, "-m", "gateway.cli", "top", "-c", str(config), "--edge", at, "--router", at]
        ours, theirs = pty.openpty()
        with subprocess.Popen([*command, "--interval", "0.2"], stdout=theirs, stderr=theirs) as running:
            os.close(theirs)
            painted = _until(ours, b"devices")
            running.terminate()
            rest = _until(ours, b"\x1b[?1049l")
        os.close(ours)
        assert painted.startswith(b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[1mmeshgate top")
        assert rest.endswith(b"\x1b[?25h\x1b[?1049l")
        assert running.returncode == Exit.OK


@pytest.mark.parametrize("counted", [("--once",), ("-n", "1")])
def test_screens_that_are_counted_stay_on_the_terminal(config: Path, counted: tuple[str, ...]) -> None:
    shown = on_terminal("-c", str(config), "--interval", "0.2", *counted)
    assert shown.startswith(b"\x1b[1mmeshgate top")
    assert b"devices" in shown
    assert b"\x1b[?1049" not in shown


@pytest.mark.parametrize("counted", [(), ("--once",)])
def test_who_wants_no_colour_gets_none_on_either_screen(config: Path, counted: tuple[str, ...]) -> None:
    shown = on_terminal("-c", str(config), "--interval", "0.2", *counted, NO_COLOR="1")
    assert b"devices" in shown
    assert re.search(rb"\x1b\[[0-9;]*m", shown) is None


def on_terminal(*arguments: str, **environment: str) -> bytes:
    """Returns what a terminal is sent until it has been shown a listener, and after that."""
    with answering(edge(5)) as told:
        at = f"127.0.0.1:{told.port}"
        command = [sys.executable, "-m", "gateway.cli", "top", "--edge", at, "--router", at, *arguments]
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | environment) as running:
            os.close(theirs)
            seen = _until(ours, b"devices")
            running.terminate()
            with suppress(OSError):  # the terminal's other end is closed
                while more := os.read(ours, 65_536):
                    seen += more
        os.close(ours)
    return seen


def _until(terminal: int, wanted: bytes, seconds: float = 60.0) -> bytes:
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < deadline:
        seen += os.read(terminal, 65_536)
    return seen

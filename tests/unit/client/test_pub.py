"""pub as a shell sees it, against a mesh of one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.console import Exit
from gateway.core.content import JSON
from tests.unit.client.loops import SECONDS
from tests.unit.client.shell import run, until
from tests.unit.client.threads import mesh_beside

pytestmark = pytest.mark.usefixtures("nowhere")


class TestPub:
    def test_an_event_is_published_and_what_became_of_it_is_told(self) -> None:
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "pub", "temp.high", '{"c":81}')
        assert (result.exit_code, result.stdout) == (Exit.OK, "published temp.high: 8 bytes, confirmed\n")
        (event,) = mesh.heard
        assert (event.subject, event.body, event.content_type) == ("temp.high", b'{"c":81}', "application/json")

    def test_an_options_value_may_come_from_the_environment_or_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORMAT", "msgpack")
        (tmp_path / "format").write_text("msgpack\n")
        with mesh_beside("yamp") as mesh:
            for written in ("${FORMAT}", "${file:format}"):
                result = run(mesh, "pub", "temp.high", "81", "-o", f'formats=["{written}"]')
                assert result.exit_code == Exit.OK, result.stderr
        assert [event.content_type for event in mesh.heard] == ["application/msgpack"] * 2

    def test_where_the_protocol_does_not_confirm_people_are_told_so(self) -> None:
        with mesh_beside("yamp") as mesh:
            result = run(mesh, "pub", "temp.high", "8")
        assert result.stdout == "published temp.high: 1 byte, written: yamp does not confirm\n"

    def test_programs_are_told_in_json(self) -> None:
        with mesh_beside("yamp") as mesh:
            result = run(mesh, "pub", "temp.high", "warm", "--output", "json", "-n", "3")
        told = {"subject": "temp.high", "count": 3, "bytes": 4, "content_type": "text/plain", "outcome": "written"}
        assert json.loads(result.stdout) == told
        assert [event.body for event in mesh.heard] == [b'"warm"'] * 3

    def test_a_body_may_come_from_standard_input_as_it_is(self) -> None:
        with mesh_beside("emp") as mesh:
            run(mesh, "pub", "blob", "-", stdin=b"\xff\x00\n")
            run(mesh, "pub", "blob", "-", "--content-type", "image/png", stdin=b"\x89PNG")
        assert [(event.body, event.content_type) for event in mesh.heard] == [
            (b"\xff\x00\n", "application/octet-stream"),
            (b"\x89PNG", "image/png"),
        ]

    def test_a_packet_that_nothing_signs_is_sent_and_told(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
            listener.bind(("127.0.0.1", 0))
            arguments = ("pub", "temp.high", "81", "--via", "emm", "--to", f"127.0.0.1:{listener.getsockname()[1]}")
            result, quiet = (CliRunner().invoke(main, [*arguments, *more]) for more in ((), ("-q",)))
            assert listener.recv(1024)
        assert result.stdout == quiet.stdout == "published temp.high: 2 bytes, sent: emm does not confirm\n"
        assert result.stderr.startswith("not signed: no meshgate.yaml here; most listeners refuse it.")
        assert (result.exit_code, quiet.stderr) == (Exit.OK, "")

    def test_each_line_of_the_input_may_be_an_event(self, tmp_path: Path) -> None:
        (tmp_path / "readings").write_bytes(b"1\n\nwarm\n")
        with mesh_beside("hsp") as mesh:
            piped = run(mesh, "pub", "temp.high", "--lines", stdin=b"81\n82\n")
            filed = run(mesh, "pub", "temp.low", "--lines", "--file", "readings", "--json")
        assert (piped.exit_code, piped.stdout) == (Exit.OK, "published 2 events: 4 bytes, confirmed\n")
        assert json.loads(filed.stdout) == {"count": 2, "bytes": 5, "outcome": "confirmed"}
        assert [(event.subject, event.body) for event in mesh.heard] == [
            ("temp.high", b"81"), ("temp.high", b"82"), ("temp.low", b"1"), ("temp.low", b"warm"),
        ]  # fmt: skip

    def test_a_pipe_is_published_line_by_line_as_it_comes(self) -> None:
        with mesh_beside("hsp") as mesh:
            line = (
                "-m",
                "gateway.cli",
                "pub",
                "temp.high",
                "--lines",
                "--via",
                "hsp",
                "--to",
                f"127.0.0.1:{mesh.port}",
            )
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
            with subprocess.Popen([sys.executable, *line], stdin=subprocess.PIPE, env=environment) as pub:
                assert pub.stdin is not None
                for count in (1, 2):
                    pub.stdin.write(b"81\n")
                    pub.stdin.flush()
                    until(lambda wanted=count: len(mesh.heard) == wanted)  # type: ignore[misc]
                pub.stdin.close()
                assert pub.wait(SECONDS) == Exit.OK

    def test_each_line_may_say_its_own_subject_as_sub_writes_it(self) -> None:
        lines = (
            {"subject": "temp.high", "body": {"c": 81}},
            {"subject": "door", "body_base64": "/w==", "content_type": "image/png", "kind": "event"},
            {"subject": "note", "body": "warm"},
        )
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "pub", "-", "--lines", stdin="\n".join(map(json.dumps, lines)).encode())
        assert result.exit_code == Exit.OK, result.stderr
        assert [(event.subject, event.body, event.content_type) for event in mesh.heard] == [
            ("temp.high", b'{"c": 81}', JSON), ("door", b"\xff", "image/png"), ("note", b"warm", "text/plain"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            (b"[]", "line 2: expected a JSON object with subject and body"),
            (b'{"subject": "a", "body_base64": "?"}', "line 2: body_base64 is no base64"),
            (b'{"subject": "a.*"}', "line 2: "),
        ],
    )
    def test_a_line_that_is_no_event_is_named_and_what_came_before_is_published(self, line: bytes, why: str) -> None:
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "pub", "-", "--lines", stdin=b'{"subject": "a"}\n' + line)
        assert result.exit_code == Exit.FAILURE
        assert why in result.stderr
        assert [event.subject for event in mesh.heard] == ["a"]

    def test_no_more_are_published_than_the_rate_allows(self) -> None:
        with mesh_beside("hsp") as mesh:
            begun = time.monotonic()
            result = run(mesh, "pub", "temp.high", "81", "-n", "6", "--rate", "50")
            took = time.monotonic() - begun
        assert result.exit_code == Exit.OK
        assert took >= 5 / 50
        assert len(mesh.heard) == 6

    def test_a_body_may_come_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "body").write_bytes(b"\xff\n")
        with mesh_beside("hsp") as mesh:
            run(mesh, "pub", "blob", "--file", "body")
        assert [event.body for event in mesh.heard] == [b"\xff\n"]

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("x", "1", "--file", "body"), "BODY, and --file: choose one of them"),
            (("x", "1", "--lines"), "BODY, and --lines: choose one of them"),
            (("x", "--lines", "-n", "2"), "--count repeats one event"),
            (("-",), "the subject `-` is for --lines"),
        ],
    )
    def test_sources_that_exclude_each_other_are_refused(
        self, tmp_path: Path, arguments: tuple[str, ...], why: str
    ) -> None:
        (tmp_path / "body").touch()
        result = CliRunner().invoke(main, ["pub", *arguments, "--to", "127.0.0.1:1"])
        assert (result.exit_code, why in result.stderr) == (Exit.USAGE, True)

    @pytest.mark.parametrize(
        "arguments", [("-5",), ("-5", "-n", "1", "-q"), ("--timeout", "5", "-5"), ("--", "-5"), ("-q", "--", "-5")]
    )
    def test_a_body_may_be_a_negative_number(self, arguments: tuple[str, ...]) -> None:
        with mesh_beside("hsp") as mesh:
            result = run(mesh, "pub", "temp.kitchen", *arguments)
        assert result.exit_code == Exit.OK, result.stderr
        assert [event.body for event in mesh.heard] == [b"-5"]

    @pytest.mark.parametrize(("argument", "why"), [("-x", "No such option"), ("--n=5", "No such option")])
    def test_what_is_no_number_is_an_option_still(self, argument: str, why: str) -> None:
        for verb in ("pub", "req"):
            result = CliRunner().invoke(main, [verb, "temp.kitchen", argument])
            assert (result.exit_code, why in result.stderr) == (Exit.USAGE, True)

    @pytest.mark.parametrize("subject", ["mesh.subscribe", "Mesh/x"])
    def test_nothing_is_published_under_mesh(self, subject: str) -> None:
        """The mesh refuses it, and most protocols have no word for that."""
        result = CliRunner().invoke(main, ["pub", subject, "1"])
        assert (result.exit_code, "nobody but the mesh publishes" in result.stderr) == (Exit.USAGE, True)

    def test_a_number_behind_an_option_is_its_value(self) -> None:
        result = CliRunner().invoke(main, ["pub", "temp.kitchen", "-n", "-5"])
        assert result.exit_code == Exit.USAGE
        assert "--count': -5 is not in the range" in result.stderr

    @pytest.mark.parametrize("via", ["yamp", "emp"])
    def test_what_the_peer_does_not_take_is_an_error_where_nothing_is_confirmed_too(self, via: str) -> None:
        with mesh_beside(via) as mesh:
            result = run(mesh, "pub", "blob", "-", stdin=bytes(2_000_000))
        assert (result.exit_code, result.stdout) == (Exit.UNAVAILABLE, "")
        assert result.stderr.startswith(f"meshgate: tcp://127.0.0.1:{mesh.port}: the session ended: ")
        assert mesh.ended == ["too_large"]

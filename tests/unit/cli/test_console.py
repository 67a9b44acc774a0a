"""Tests the output of verbs, and the log beside it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from gateway.cli.bodies import write_body
from gateway.cli.console import LOG_FORMAT, Output, cell, complain, printable, show, show_line, show_table
from gateway.cli.options import common_options, logging_options

ROWS: list[dict[str, object]] = [
    {"name": "apps", "count": 3, "tls": True, "extra": [1]},
    {"name": "a\x1b[31m", "count": None, "tls": False},
]


@pytest.fixture(autouse=True)
def _the_log_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, log_format = root.handlers[:], root.level, LOG_FORMAT.get()
    yield
    root.handlers[:], root.level = handlers, level
    LOG_FORMAT.set(log_format)


class TestOutput:
    @pytest.mark.parametrize("steering", ["\x1b[31m", "\x9b31m", "\x7f", "\u202e", "\u2028", "\0"])
    def test_json_steers_no_terminal_and_says_the_same(self, steering: str, capsys: pytest.CaptureFixture[str]) -> None:
        show({"said": f"é{steering}"}, Output.JSON, "")
        out = capsys.readouterr().out
        assert steering not in out
        assert "é" in out
        assert json.loads(out) == {"said": f"é{steering}"}

    def test_a_table_has_its_columns_side_by_side(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_table(ROWS, ["name", "count", "tls"], Output.TEXT)
        assert capsys.readouterr().out == (
            "name       count  tls\n"
            "apps       3      yes\n"
            "a\\x1b[31m  -      no\n"
        )  # fmt: skip

    def test_an_empty_table_has_its_heads(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_table([], ["name", "count"], Output.TEXT)
        assert capsys.readouterr().out == "name  count\n"

    def test_as_json_a_table_is_one_array_with_all_that_is_known(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_table(iter(ROWS), ["name"], Output.JSON)
        assert json.loads(capsys.readouterr().out) == ROWS

    def test_a_stream_is_a_line_each(self, capsys: pytest.CaptureFixture[str]) -> None:
        for row in ROWS:
            show_line(row, Output.JSON, "")
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS

    def test_what_an_error_quotes_of_a_peer_does_not_steer_the_terminal(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        LOG_FORMAT.set("text")  # another verb's may be left
        complain("the session ended: bye: \x1b[2J", "Trace\n  \x9b2J")
        assert capsys.readouterr().err == "meshgate: the session ended: bye: \\x1b[2J\nTrace\n  \\x9b2J\n"

    @pytest.mark.parametrize(
        ("body", "piped", "shown"),
        [
            (b"a\tb\n\x1b[2J", b"a\tb\n\x1b[2J\n", b"a       b\n\\x1b[2J\n"),
            (b"\xff\x1b", b"\xff\x1b", b"0xff1b\n"),
        ],
    )
    def test_a_body_steers_no_terminal_and_is_whole_in_a_pipe(
        self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch,
        body: bytes, piped: bytes, shown: bytes,
    ) -> None:  # fmt: skip
        write_body(body)
        assert capfdbinary.readouterr().out == piped
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        write_body(body)
        assert capfdbinary.readouterr().out == shown

    def test_a_line_of_text_does_not_steer_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_line({}, Output.TEXT, "a\x1b[2Jb")
        assert capsys.readouterr().out == "a\\x1b[2Jb\n"

    def test_one_result_is_a_document_or_its_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        show({"a": "ü"}, Output.JSON, "text")
        show({"a": "ü"}, Output.TEXT, "text\nof two lines")
        assert capsys.readouterr().out == '{"a": "ü"}\ntext\nof two lines\n'

    @pytest.mark.parametrize(
        ("value", "text"), [(None, "-"), (True, "yes"), (False, "no"), (["a", 1], "a, 1"), (0, "0"), ("a\nb", "a\\nb")]
    )
    def test_cells_are_of_one_line(self, value: object, text: str) -> None:
        assert cell(value) == text

    def test_what_can_be_printed_stays(self) -> None:
        assert printable("grüße, 世界 🙂") == "grüße, 世界 🙂"

    @pytest.mark.parametrize("char", ["\x00", "\x7f", "\x9b", "\u202e", "\n"])
    def test_what_steers_is_escaped(self, char: str) -> None:
        assert printable(char).startswith("\\")


@click.command()
@logging_options
def speak() -> None:
    log = logging.getLogger("edge")
    for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG):
        log.log(level, "%s", logging.getLevelName(level).lower(), extra={"listener": "a\x1bb"})


class TestLog:
    @pytest.mark.parametrize(
        ("arguments", "levels"),
        [
            (["-q"], ["error"]),
            ([], ["error", "warning"]),
            (["-v"], ["error", "warning", "info"]),
            (["-vv"], ["error", "warning", "info", "debug"]),
            (["-vvvv"], ["error", "warning", "info", "debug"]),
            (["-qqq"], ["error"]),
            (["-v", "-q"], ["error", "warning"]),
        ],
    )
    def test_it_is_as_loud_as_it_is_told(self, arguments: list[str], levels: list[str]) -> None:
        result = CliRunner().invoke(speak, [*arguments, "--log-format", "json"])
        assert [json.loads(line)["level"] for line in result.stderr.splitlines()] == levels
        assert result.stdout == ""

    def test_as_json_it_has_what_was_said_beside_it(self) -> None:
        (line,) = CliRunner().invoke(speak, ["--log-format", "json", "-q"]).stderr.splitlines()
        found = json.loads(line)
        assert (found["logger"], found["message"], found["listener"]) == ("edge", "error", "a\x1bb")
        assert found["time"].endswith("Z")

    def test_as_text_it_does_not_steer_the_terminal(self) -> None:
        (line,) = CliRunner().invoke(speak, ["-q"]).stderr.splitlines()
        assert line.endswith("error edge: error listener=a\\x1bb")

    @pytest.mark.parametrize("log_format", ["text", "json"])
    def test_what_went_wrong_is_in_it(self, log_format: str) -> None:
        @click.command()
        @logging_options
        def fail() -> None:
            try:
                raise ValueError("why")
            except ValueError:
                logging.getLogger("edge").exception("it failed")

        result = CliRunner().invoke(fail, ["--log-format", log_format])
        assert "it failed" in result.stderr
        assert "ValueError: why" in result.stderr


def test_what_most_verbs_take_comes_by_its_names() -> None:
    @click.command()
    @common_options
    def verb(config_file: str | None, output: Output) -> None:
        click.echo(f"{config_file} {output!r}")

    result = CliRunner().invoke(verb, ["-c", "x.yaml", "--output", "json", "-v"])
    assert result.stdout == f"x.yaml {Output.JSON!r}\n"

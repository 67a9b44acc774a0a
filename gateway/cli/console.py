"""Prints for verbs: tables and JSON to standard output, one-line errors to standard error, and the exit codes."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any

import click

from gateway.core.errors import SetupError
from gateway.core.yaml_files.faults import ConfigError

GAP = "  "
LOG_FORMAT = ContextVar("log_format", default="text")
"""The form of lines on standard error: for people or for collectors."""

_STEERING = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""DEL, the C1 control characters, and those that end lines or turn the direction of what is read."""


class Exit(IntEnum):
    """The exit codes, as in sysexits.h, and 128 + SIGINT."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    UNAVAILABLE = 69
    CONFIG = 78
    INTERRUPTED = 130


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


class CommandError(Exception):
    """The verb cannot do what it was asked to; the message names the setting or peer at fault."""

    code = Exit.FAILURE


class UnavailableError(CommandError):
    """Raised if the part that a verb talks to does not answer."""

    code = Exit.UNAVAILABLE


def show(value: Any, output: Output, text: str) -> None:
    """Prints one result: a JSON document, or its text."""
    click.echo(json_text(value) if output is Output.JSON else text)


def show_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], output: Output) -> None:
    """A list that is complete: one JSON array with all that is known, or the columns side by side."""
    rows = list(rows)
    if output is Output.JSON:
        click.echo(json_text(rows))
        return
    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for at, line in enumerate(lines):
        text = GAP.join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        click.echo(click.style(text, bold=True) if at == 0 else text)


def show_line(value: Mapping[str, Any], output: Output, text: str) -> None:
    """Prints one of a stream of results at once: a line of JSON, or a line of text."""
    click.echo(json_text(value) if output is Output.JSON else printable(text))


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def json_text(value: Any) -> str:
    """Returns one line of JSON that steers no terminal either: JSON itself escapes only the first 32 characters.

    >>> json_text({"\u00e9": "\\x9b31m"})
    '{"\u00e9": "\\\\u009b31m"}'
    """
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(text: str) -> str:
    """Returns the text without what could steer the terminal: peers may send anything.

    >>> printable("ok \\x1b[31m")
    'ok \\\\x1b[31m'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def note(text: str) -> None:
    """Prints a note for people, beside the output. -q silences it."""
    if logging.getLogger().isEnabledFor(logging.WARNING):
        _write_line("info", text, text)


def complain(message: str, trace: str = "") -> None:
    _write_line("error", message, "\n".join(filter(None, (f"meshgate: {message}", trace))), trace)


def _write_line(level: str, message: str, text: str, trace: str = "") -> None:
    """Prints `text`, which may quote a peer, or writes a line of the log if that is JSON."""
    if LOG_FORMAT.get() == "json":
        line = {"time": timestamp(time.time()), "level": level, "logger": "meshgate", "message": message}
        text = json.dumps(line | ({"traceback": trace} if trace else {}))
    click.echo(printable_lines(text), err=True)


def timestamp(seconds: float) -> str:
    """Returns the time as log lines write it.

    >>> timestamp(1_700_000_000.1234)
    '2023-11-14T22:13:20.123Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def report(failed: Exception) -> Exit | int:
    """Tells why a verb failed, one line for each fault, and gives its exit code."""
    if isinstance(failed, click.UsageError):
        return _usage(failed)
    if isinstance(failed, click.Abort):
        return Exit.INTERRUPTED
    if isinstance(failed, click.ClickException):
        complain(_one_line(failed))
        return failed.exit_code
    if isinstance(failed, CommandError):
        complain(str(failed))
        return failed.code
    if isinstance(failed, SetupError):
        complain(str(failed))
        return Exit.UNAVAILABLE
    if isinstance(failed, ConfigError):
        for fault in failed.faults:
            complain(str(fault))
        return Exit.CONFIG
    return _unexpected(failed)


def _usage(failed: click.UsageError) -> int:
    if isinstance(failed, click.exceptions.NoArgsIsHelpError):
        failed.show()
        return failed.exit_code
    where = "" if failed.ctx is None else f" (see {failed.ctx.command_path} --help)"
    complain(_one_line(failed).rstrip(".") + where)
    return failed.exit_code


def _one_line(failed: click.ClickException) -> str:
    """click lists choices one below the other."""
    return " ".join(failed.format_message().split())


def _unexpected(failed: Exception) -> Exit:
    """The operating system's refusals speak for themselves; anything else is a mistake of ours, shown with -v."""
    trace = "".join(traceback.format_exception(failed)) if logging.getLogger().isEnabledFor(logging.INFO) else ""
    if isinstance(failed, OSError) and failed.strerror:
        complain(f"{failed.filename}: {failed.strerror}" if failed.filename else failed.strerror, trace)
    else:
        complain(f"internal: {type(failed).__name__}: {' '.join(str(failed).split())} (-v shows where)", trace)
    return Exit.FAILURE

"""Bodies on the command line: as arguments, from standard input, and shown again."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.cli.console import printable_lines
from gateway.core.content import BINARY, JSON, TEXT, from_json
from gateway.core.reasons import Rejected
from gateway.core.subjects import configured_subject, tokens

Verb = TypeVar("Verb", bound=Callable[..., Any])
EXAMPLE = "kitchen"
"""A token, where one shows what a subject looks like."""


class BodyCommand(click.Command):
    """A verb whose body may be a negative number: no option of ours begins with a digit."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _numbers_last(args, self._with_value()))

    def _with_value(self) -> frozenset[str]:
        options = (
            param for param in self.params if isinstance(param, click.Option) and not (param.is_flag or param.count)
        )
        return frozenset(name for option in options for name in option.opts)


def _numbers_last(arguments: list[str], with_value: frozenset[str]) -> list[str]:
    """Puts negative numbers behind a `--`, as one would have to write them.

    >>> _numbers_last(["temp", "-5", "-n", "-1", "-q"], frozenset({"-n"}))
    ['temp', '-n', '-1', '-q', '--', '-5']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before = ["", *arguments[:end]]
    is_number = [
        argument[:1] == "-" and argument[1:2].isdecimal() and last not in with_value
        for last, argument in pairwise(before)
    ]
    options = [argument for argument, number in zip(arguments, is_number, strict=False) if not number]
    numbers = [argument for argument, number in zip(arguments, is_number, strict=False) if number]
    return [*options, "--", *numbers, *arguments[end + 1 :]] if numbers else arguments


def _subject(context: click.Context, argument: click.Parameter, text: str) -> str:
    """Checks the subject. Nobody can subscribe to the empty one; most other bad ones were meant for `sub`."""
    if not text:
        raise click.BadParameter("a subject must not be empty", context, argument)
    try:
        return configured_subject(text)
    except ValueError as why:
        is_pattern = not {"*", ">"}.isdisjoint(tokens(text))
        raise click.BadParameter(_no_pattern(text) if is_pattern else str(why), context, argument) from None


subject_argument = click.argument("subject", callback=_subject)
"""Adds the argument `subject: str`."""


def _no_pattern(text: str) -> str:
    """
    >>> _no_pattern("temp.>")
    'temp.> is a pattern: publish to one subject, such as temp.kitchen'
    """
    example = ".".join(EXAMPLE if part in ("*", ">") else part for part in tokens(text))
    return f"{text} is a pattern: publish to one subject, such as {example}"


def body_options(verb: Verb) -> Verb:
    """Adds `body: str | None` and `content_type: str | None`, for `read_body`."""
    verb = click.option(
        "--content-type", metavar="TYPE", help="The body's content type.  [default: JSON if it is, else text]"
    )(verb)
    return click.argument("body", required=False)(verb)


def read_body(body: str | None, content_type: str | None, file: Path | None = None) -> tuple[bytes, str]:
    """The body and its type. `-` is standard input."""
    if file is not None:
        data = file.read_bytes()
    else:
        data = sys.stdin.buffer.read() if body == "-" else (body or "").encode(errors="surrogateescape")
    return data, guessed_type(data) if content_type is None else content_type


def guessed_type(body: bytes) -> str:
    """Returns the content type that the bytes of a body suggest.

    >>> guessed_type(b'{"celsius": 81}'), guessed_type(b"warm"), guessed_type(b"\\xff"), guessed_type(b"")
    ('application/json', 'text/plain', 'application/octet-stream', '')
    """
    if not body:
        return ""
    try:
        from_json(body)
        return JSON
    except Rejected:
        return TEXT if _is_text(body) else BINARY


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def body_fields(body: bytes) -> dict[str, str]:
    """Returns the body as fields for JSON: as text, or else as base64.

    >>> body_fields(b"81"), body_fields(b"\\xff")
    ({'body': '81'}, {'body_base64': '/w=='})
    """
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def body_text(body: bytes) -> str:
    """Returns the body as text for people, or else as hex.

    >>> body_text(b"81"), body_text(b"\\xff\\x00")
    ('81', '0xff00')
    """
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"0x{body.hex()}"


def write_body(body: bytes) -> None:
    """Writes a body as it is, for a pipe; text ends its line. A terminal is shown what would steer it."""
    if sys.stdout.isatty():
        click.echo(printable_lines(body_text(body).expandtabs()))
        return
    try:
        click.echo(body.decode(), color=True)  # else click leaves out what would colour a terminal
    except UnicodeDecodeError:
        sys.stdout.flush()
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()

"""Reads the shell commands out of the pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

import click

from gateway.cli import Verbs
from gateway.docs.site import Page

PLACEHOLDER = re.compile(r"[A-Z][A-Z_:]*|.*[….\[<{].*")
"""Stands for a value of the reader's own."""
PROGRAMS = (
    r"(?:\.venv/bin/)?(?:meshgate|pip|pytest|python3?(?:\.11)?|kubectl|helm|docker|ruff|mypy|lint-imports|openssl"
    r"|ss|ssh|kafka-configs)"
)
COMMAND = re.compile(rf"(?:{PROGRAMS}|tests/cluster/run|\.ci/run)(?: .*|$)", re.S)


@dataclass(frozen=True)
class PageCommand:
    """One command of a page. `shown` is the output that the page shows behind it."""

    page: str
    line: str
    shown: str = field(default="", compare=False)


def blocks(page: Page) -> list[str]:
    return [token.content for token in page.tokens if token.type == "fence" and token.info in ("sh", "bash", "console")]


def spans(page: Page) -> Iterator[str]:
    for token in page.tokens:
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def lines(page: Page) -> list[str]:
    """Lines of blocks, those that go on in the next one joined, without comments."""
    joined = "\n".join(blocks(page)).replace("\\\n", " ")
    return [re.sub(r"(?:^|\s)#.*", "", line) for line in joined.splitlines()]


def commands(page: Page) -> list[PageCommand]:
    """Returns every command of a page, in its order: the lines of blocks, and what the text names in whole.

    A verb that the text only mentions, without what it needs, is none.
    """
    found = []
    for token in page.tokens:
        if token.type == "code_block" or (token.type == "fence" and token.info in ("sh", "bash", "console")):
            for line in token.content.replace("\\\n", " ").splitlines():
                command, _, comment = f" {line}".partition(" #")
                found += [PageCommand(page.path, command.strip(), comment.strip())] if command.strip() else []
        named = [child.content for child in token.children or () if child.type == "code_inline"]
        found += [PageCommand(page.path, span) for span in named if COMMAND.fullmatch(span) and is_whole(span)]
    return list(dict.fromkeys(found))


def is_whole(span: str) -> bool:
    """True if the text's command can be typed as it stands, apart from placeholders."""
    if re.search(r"[\[\]{}]", span) and "{reason" not in span:
        return False
    try:
        for words in calls(span.replace("…", "SOMETHING")):
            takes(words, is_whole=True)
            if isinstance(verb_of(words)[0], click.Group) and "--version" not in words:
                return False
    except (AssertionError, click.UsageError, ValueError):
        return False
    return True


def calls(line: str) -> Iterator[list[str]]:
    """Yields the words behind `meshgate`, wherever a line calls it: behind a pipe, a `--`, an `&&`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.commenters, lexer.whitespace_split = "", True
    words: list[str] = []
    for word in [*lexer, "|"]:
        if re.fullmatch(r"[|&;<>()]+", word):
            names = [at for at, name in enumerate(words) if name.rpartition("/")[2] == "meshgate"]
            if names and (names[0] == 0 or words[names[0] - 1] in ("--", "edge", "exec")):
                yield words[names[0] + 1 :]
            words = []
        else:
            words.append(word)


def verb_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Returns the verb that is meant, and the rest. Fails where there is none."""
    command: click.Command = Verbs()
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"there is no verb {name}: {words}"
        command = found
    return command, rest


def takes(words: list[str], *, is_whole: bool) -> None:
    """Fails if the verb has not these options and values. `is_whole`: nothing that it needs is left out."""
    command, rest = verb_of(words)
    context = click.Context(command)
    if isinstance(command, click.Group):
        assert rest in ([], ["--help"], ["--version"]), words
        return
    given, _, _ = command.make_parser(context).parse_args(rest)  # raises UsageError
    for option in command.params:
        value = given.get(option.name or "")
        if isinstance(option.type, click.Choice) and isinstance(value, str) and not PLACEHOLDER.fullmatch(value):
            option.type.convert(value, option, context)  # raises BadParameter
        if is_whole and isinstance(option, click.Argument) and option.required and option.nargs == 1:
            assert isinstance(value, str), f"{words}: {option.name} is missing"

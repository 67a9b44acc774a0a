"""Every command in the pages: a shell can read it, the verbs of ours take it, and what it runs or names is there."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest

from gateway.cli import VERBS, Verbs
from gateway.docs.site import ROOT, Page, find_pages

PAGES = find_pages()
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
PLACEHOLDER = re.compile(r"[A-Z][A-Z_:]*|.*[….\[<{].*")
"""Stands for a value of the reader's own."""


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
    """The verb that is meant, and the rest. Fails where there is none."""
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


@EACH_PAGE
def test_a_shell_can_read_every_block(page: Page) -> None:
    for block in blocks(page):
        plain = re.sub(r"<[A-Z_]+>|…", "SOMETHING", block)
        done = subprocess.run(["bash", "-n"], input=plain, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), block


@EACH_PAGE
def test_our_verbs_take_every_command_of_a_block(page: Page) -> None:
    for line in lines(page):
        for words in calls(line):
            takes(words, is_whole=True)


@EACH_PAGE
def test_our_verbs_take_every_command_of_the_text(page: Page) -> None:
    for span in spans(page):
        if span.startswith("meshgate ") and not re.search(r"[\[\]{}]", span):
            for words in calls(span.replace("…", "SOMETHING")):
                if words[0] in VERBS:
                    takes(words, is_whole=False)


@EACH_PAGE
def test_every_module_and_test_that_is_run_is_there(page: Page) -> None:
    for line in lines(page):
        for name in re.findall(r"python3? -m ((?:gateway|streaming_jobs|helm|tests)[\w.]*)", line):
            assert importlib.util.find_spec(name) is not None, line
        for path in re.findall(r"(?:^|\s)((?:gateway|tests|helm|k8s|[.]ci)/[\w./-]+)(?=\s|$)", line):
            assert (ROOT / path).exists(), line
        if found := re.match(r"(?:\.venv/bin/)?pytest (.*)", line):
            assert all((ROOT / word).exists() for word in shlex.split(found[1]) if word.startswith("tests")), line


def test_there_are_commands_to_look_at() -> None:
    assert shutil.which("bash")
    assert sum(len(list(calls(line))) for page in PAGES for line in lines(page)) > 30
    assert sum(span.startswith("meshgate ") for page in PAGES for span in spans(page)) > 60


def test_a_wrong_command_would_be_found() -> None:
    for wrong in ("nothing", "keys nothing", "pub a --nothing", "pub a --via telnet"):
        with pytest.raises((AssertionError, click.UsageError)):
            takes(shlex.split(wrong), is_whole=True)
    with pytest.raises(AssertionError, match="subject is missing"):
        takes(["pub"], is_whole=True)

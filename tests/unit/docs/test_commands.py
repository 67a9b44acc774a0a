"""Every command in the pages: a shell can read it, the verbs of ours take it, and what it runs or names is there."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess

import click
import pytest

from gateway.cli import VERBS
from gateway.docs.site import ROOT, Page, find_pages
from tests.unit.docs.page_commands import blocks, calls, lines, spans, takes

PAGES = find_pages()
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)


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

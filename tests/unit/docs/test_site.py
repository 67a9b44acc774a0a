"""The documentation as a site: every page is in it, its links lead somewhere, and it asks for nothing elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gateway.docs.site import ELSEWHERE, HOME, ROOT, SHIPPED, Page, build_site, find_pages
from tests.unit.cli.running import run

SITE = build_site()
HTML = sorted(name for name in SITE if name.endswith(".html"))
EACH = pytest.mark.parametrize("name", HTML)


class Read(HTMLParser):
    """What a page has that others may lead to, and what it leads to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.inline: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        if tag == "a":
            self.links.append(given["href"])
        elif "src" in given or "href" in given:
            self.loads.append(given.get("src", given.get("href", "")))
        if tag == "style" or "style" in given or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.inline += [name for name in given if name.startswith("on")]


PAGES = {name: Read(SITE[name].decode()) for name in HTML}


def test_every_page_is_in_it() -> None:
    pages = {page.path for page in find_pages()}
    docs = {str(path.relative_to(ROOT)) for path in (ROOT / "gateway" / "docs").glob("*.md")}
    assert {"README.md", *docs, *ELSEWHERE} == pages
    assert len({page.name for page in find_pages()}) == len(pages) == len(HTML)


def test_the_pages_outside_of_the_packages_are_installed_too() -> None:
    """`pip install .` puts them where the site looks for them."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    shipped = {
        f"{folder.removeprefix(f'{SHIPPED}/')}/{path.name}"
        for folder, globs in patterns.items()
        for pattern in globs
        for path in ROOT.glob(pattern)
    }
    assert {path for path in ELSEWHERE if not path.startswith("gateway/")} <= shipped


@EACH
def test_every_link_leads_to_a_place_of_the_site_or_to_the_web(name: str) -> None:
    assert PAGES[name].links
    for link in PAGES[name].links:
        if not re.match("https?://", link):
            file, _, anchor = link.partition("#")
            assert (file or name) in SITE, link
            assert not anchor or anchor in PAGES[file or name].ids, link


@EACH
def test_links_to_pages_lead_to_them(name: str) -> None:
    (page,) = (page for page in find_pages() if page.name == name)
    wanted = {
        other.name + (f"#{anchor}" if anchor else "")
        for path, anchor in re.findall(r"\]\(([^)\s:#]+\.md)(?:#([^)\s]+))?\)", page.text)
        for other in find_pages()
        if (ROOT / page.path).parent.joinpath(path).resolve() == (ROOT / other.path).resolve()
    }
    assert wanted <= set(PAGES[name].links)


@EACH
def test_it_loads_only_what_is_in_it_and_runs_nothing_that_stands_in_a_page(name: str) -> None:
    assert set(PAGES[name].loads) - {"data:,"} <= SITE.keys()
    assert PAGES[name].inline == []
    assert "default-src 'none'; script-src 'self'" in SITE[name].decode()


@EACH
def test_an_anchor_is_there_once(name: str) -> None:
    assert len(set(PAGES[name].ids)) == len(PAGES[name].ids)


def index() -> list[tuple[str, str, str, str, str]]:
    text = SITE["search-index.js"].decode()
    rows: list[tuple[str, str, str, str, str]] = json.loads(text.removeprefix("const INDEX = ").removesuffix(";\n"))
    return rows


def test_the_search_knows_every_chapter_and_leads_to_it() -> None:
    for file, anchor, *_ in index():
        assert not anchor or anchor in PAGES[file].ids
    chapters = {(page.name, anchor) for page in find_pages() for _, anchor, _ in page.headings}
    assert chapters == {(file, anchor) for file, anchor, *_ in index() if anchor}


def test_the_search_knows_every_setting() -> None:
    words = " ".join(text for file, *_, text in index() if file == "settings.html")
    assert {"edge.operators", "limits.frame_bytes", "kafka.bootstrap"} <= set(words.split())


def test_markup_in_a_page_stays_text_but_for_a_line_break() -> None:
    from gateway.docs.site import _Renderer

    page = Page(
        "one.md", "one.html", "# One\n\na <br> b <img src=x onerror=y> <!-- not this --> `<b>`\n\n<script>x</script>\n"
    )
    shown = _Renderer(page, {}).render()
    assert "<br>" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "not this" not in shown


def test_it_is_written_into_a_folder(tmp_path: Path) -> None:
    done = run("docs", "--output", str(tmp_path / "site"))
    assert done.exit_code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "site").iterdir()} == SITE
    again = run("docs", "--output", str(tmp_path / "site"), "--json")
    assert json.loads(again.stdout) == {"folder": str(tmp_path / "site"), "files": len(SITE)}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("docs", "--output", str(tmp_path / "file" / "site"))
    assert done.exit_code != 0
    assert str(tmp_path / "file") in done.stderr


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    serving = [sys.executable, "-m", "gateway.cli", "docs", "--no-open"]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", running.stdout.readline())
        assert found is not None
        yield found[0]
        running.terminate()


def test_it_is_served_with_its_policy(served: str) -> None:
    for name in ["", *SITE]:
        with urllib.request.urlopen(served + name, timeout=10) as answer:  # noqa: S310
            assert answer.read() == SITE[name or HOME]
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")


@pytest.mark.parametrize("path", ["pyproject.toml", "../pyproject.toml", "%2e%2e/pyproject.toml", "nothing.html"])
def test_nothing_else_is_served(served: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(served + path, timeout=10)  # noqa: S310
    with refused.value as answer:
        assert answer.code == 404

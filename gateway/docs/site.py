"""Makes a site of the documentation that is read without a network: an HTML file for each page, and a search.

A page is found in the source tree, or in the installed package: that has the pages of `gateway`, the README in its
metadata, and all others among its data files. A link to a page leads to its HTML file. A link to any other file of the
tree becomes its path.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib.metadata import distribution, metadata
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
README, HOME = "README.md", "index.html"
ELSEWHERE = {
    "gateway/protocols/TRANSLATION.md": "translation.html",
    "k8s/OPERATE.md": "operate.html",
    "k8s/RUNBOOKS.md": "runbooks.html",
    "helm/meshgate/README.md": "chart.html",
    "tests/bench/README.md": "benchmarks.html",
    "tests/cluster/README.md": "cluster.html",
}
"""The pages that stand in other folders. The installed package has those outside of `gateway` in a folder that
`pyproject.toml` names."""
SHIPPED = "share/meshgate"
STATIC = ("site.css", "site.js")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


@dataclass(frozen=True)
class Page:
    """One page. `path` is its place in the tree, `name` its file in the site, `text` its Markdown."""

    path: str
    name: str
    text: str = field(repr=False)

    @cached_property
    def tokens(self) -> Sequence[Token]:
        """The text in tokens. Headings have their anchors, as forges make them."""
        tokens = MARKDOWN.parse(self.text)
        anchors: dict[str, int] = {}
        for token, words in pairwise(tokens):
            if token.type == "heading_open":
                slug = re.sub(r"[^\w\- ]", "", words.content.lower()).replace(" ", "-")
                anchors[slug] = anchors.get(slug, -1) + 1
                token.attrSet("id", f"{slug}-{anchors[slug]}" if anchors[slug] else slug)
        return tokens

    @cached_property
    def title(self) -> str:
        return next(title for tag, _, title in self.headings if tag == "h1")

    @cached_property
    def headings(self) -> Sequence[tuple[str, str, str]]:
        """Returns the headings: tag, anchor, words."""
        return [
            (token.tag, str(token.attrs["id"]), _plain(words))
            for token, words in pairwise(self.tokens)
            if token.type == "heading_open"
        ]

    def sections(self) -> Iterator[tuple[str, str, str]]:
        """Yields what a search looks through: anchor, heading, and the words below it."""
        anchor, heading, words = "", self.title, list[str]()
        for at, token in enumerate(self.tokens):
            if token.type == "heading_open":
                yield anchor, heading, " ".join(words)
                anchor, heading, words = str(token.attrs["id"]), _plain(self.tokens[at + 1]), []
            elif token.type == "inline" and self.tokens[at - 1].type != "heading_open":
                words.append(_plain(token))
            elif token.type == "fence":
                words.append(token.content)
        yield anchor, heading, " ".join(words)


def find_pages() -> list[Page]:
    """Returns all pages that are there, the README first."""
    docs = sorted(folder.name for folder in files("gateway.docs").iterdir() if folder.name.endswith(".md"))
    site_pages = [Page(README, HOME, _readme())]
    site_pages += [
        Page(f"gateway/docs/{name}", name.replace(".md", ".html"), (files("gateway.docs") / name).read_text())
        for name in docs
    ]
    elsewhere = ((path, name, _file(path)) for path, name in ELSEWHERE.items())
    return site_pages + [Page(path, name, file.read_text()) for path, name, file in elsewhere if file is not None]


def _file(path: str) -> Path | None:
    """Returns a page's file: of this tree, or of the installed package."""
    if (ROOT / path).is_file():
        return ROOT / path
    installed = distribution("meshgate").files or ()
    return next((Path(str(file.locate())) for file in installed if file.match(f"*/{SHIPPED}/{path}")), None)


def build_site() -> dict[str, bytes]:
    """Returns the site's files by their names."""
    pages = find_pages()
    by_path = {page.path: page for page in pages}
    site = {name: (files(__package__) / name).read_bytes() for name in STATIC}
    site["search-index.js"] = _index(pages).encode()
    for page in pages:
        body = _Renderer(page, by_path)
        site[page.name] = _html(page, pages, body.render()).encode()
        site |= {name: (ROOT / path).read_bytes() for name, path in body.images.items()}
    return site


class _Renderer:
    """Renders one page. `images` are those that it shows or leads to: the file in the site, and its place in the
    tree."""

    def __init__(self, page: Page, by_path: Mapping[str, Page]) -> None:
        self._page = page
        self._by_path = by_path
        self.images: dict[str, str] = {}
        self._renderer = RendererHTML()
        own = ("table_open", "table_close", "html_block", "html_inline")
        self._renderer.rules |= {name: getattr(self, f"_{name}") for name in own}

    def render(self) -> str:
        tokens = self._page.tokens
        for at, token in enumerate(tokens):
            self._lead(token.children or ())
            if token.type == "th_open" and not tokens[at + 1].content:
                token.tag = tokens[at + 2].tag = "td"  # a head without words is none to a screen reader
            if token.type == "fence":
                token.attrSet("tabindex", "0")
            elif "style" in token.attrs:  # of a column: the policy takes no styles that stand in a page
                token.attrs = {"class": str(token.attrs["style"]).removeprefix("text-align:")}
        return self._renderer.render(tokens, MARKDOWN.options, {})

    def _lead(self, children: Sequence[Token]) -> None:
        """Leads links to the site's own files."""
        is_file = False
        for token in children:
            if token.type == "image":
                token.attrSet("src", self._picture(str(token.attrs["src"])))
            elif token.type == "link_open":
                target = self._target(str(token.attrs["href"]))
                is_file = target is None
                if target is None:
                    path = self._resolve(str(token.attrs["href"]).partition("#")[0])
                    token.tag, token.attrs = "span", {"class": "file", "title": f"in the source tree: {path}"}
                else:
                    token.attrSet("href", target)
            elif token.type == "link_close" and is_file:
                token.tag = "span"

    def _target(self, href: str) -> str | None:
        """Returns where a link leads; None if that is no page of the site."""
        if EXTERNAL.match(href) or href.startswith("#"):
            return href
        if href.endswith(".png"):
            return self._picture(href)
        path, _, anchor = href.partition("#")
        page = self._by_path.get(self._resolve(path))
        return None if page is None else page.name + (f"#{anchor}" if anchor else "")

    def _picture(self, path: str) -> str:
        """Takes a picture into the site, and returns its file there."""
        name = posixpath.basename(path)
        self.images[name] = self._resolve(path)
        return name

    def _resolve(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(self._page.path), path))

    def _table_open(self, *_: object) -> str:
        return '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>\n'

    def _table_close(self, *_: object) -> str:
        return "</table></div>\n"

    def _html_block(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        return self._html_inline(tokens, at)

    def _html_inline(self, tokens: Sequence[Token], at: int, *_: object) -> str:
        """Lets a line break through, and no other markup. Comments are for those who write the page."""
        content = re.sub(r"(?s)<!--.*?-->", "", tokens[at].content)
        return content if content.strip() in ("", "<br>") else escape(content)


def _plain(token: Token) -> str:
    return "".join(child.content or " " for child in token.children or () if child.type not in ("image", "html_inline"))


def _readme() -> str:
    if (ROOT / "pyproject.toml").is_file():  # of this tree; among installed packages another's README may lie here
        return (ROOT / README).read_text()
    return metadata("meshgate")["Description"]


def _index(pages: Sequence[Page]) -> str:
    rows = [
        (page.name, anchor, page.title, heading, " ".join(words.split()))
        for page in pages
        for anchor, heading, words in page.sections()
        if words or anchor
    ]
    return f"const INDEX = {json.dumps(rows, ensure_ascii=False)};\n"


def _html(page: Page, pages: Sequence[Page], body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="site.css">
<script src="search-index.js" defer></script>
<script src="site.js" defer></script>
<title>{escape(page.title)}{"" if page.name == HOME else " · Meshgate"}</title>
<a class="skip" href="#page">to the page</a>
<header>
  <a href="{HOME}">meshgate</a>
  <search><label>search <input id="words" type="search" autocomplete="off" spellcheck="false"></label></search>
</header>
<nav aria-label="Pages"><ul>
{"".join(_entry(other, page) for other in pages)}</ul></nav>
<main id="page">
<section id="found" aria-label="Found" hidden><p role="status"></p><ol></ol></section>
<article>
{body}</article>
</main>
</html>
"""


def _entry(page: Page, current: Page) -> str:
    """Returns a line of the list of pages; below the current one are its chapters."""
    if page is not current:
        return f'<li><a href="{page.name}">{escape(page.title)}</a>\n'
    chapters = "".join(
        f'<li><a href="#{anchor}">{escape(words)}</a>\n' for tag, anchor, words in page.headings if tag == "h2"
    )
    below = f"<ul>{chapters}</ul>" if chapters else ""
    return f'<li><a href="{page.name}" aria-current="page">{escape(page.title)}</a>{below}\n'

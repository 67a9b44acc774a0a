"""The documentation as a site, in a real browser: served, and from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.docs.site import build_site
from tests.integration.browser.axe import violations
from tests.integration.browser.chromium import Browser, chromium

WATCHED = """
  window.refused = [];
  document.addEventListener("securitypolicyviolation", one => refused.push(one.blockedURI));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name, content in build_site().items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as one:
        one.call("Page.addScriptToEvaluateOnNewDocument", source=WATCHED)
        yield one


def look(browser: Browser, site: Path, name: str, width: int, scheme: str) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.open(f"{site.as_uri()}/{name}")


def search(browser: Browser, words: str) -> str:
    browser.fill(words=words)
    browser.evaluate("document.getElementById('words').dispatchEvent(new Event('input'))")
    return browser.text("#found")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1600, "dark")])
@pytest.mark.parametrize("name", ["index.html", "settings.html", "benchmarks.html", "chart.html"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    browser: Browser, site: Path, name: str, width: int, scheme: str
) -> None:
    look(browser, site, name, width, scheme)
    assert "places" in search(browser, "kafka")
    assert browser.evaluate("refused") == []  # axe itself will ask for style sheets, which is refused
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(browser) == []


@pytest.mark.parametrize("name", ["settings.html", "metrics.html"])
def test_no_name_in_a_table_is_broken_on_a_telephone(browser: Browser, site: Path, name: str) -> None:
    look(browser, site, name, 390, "light")
    names = "[...document.querySelectorAll('td:first-child code')]"
    assert browser.evaluate(f"{names}.filter(one => one.getClientRects().length > 1).map(one => one.textContent)") == []


def test_it_is_searched_from_a_folder_without_a_server(browser: Browser, site: Path) -> None:
    look(browser, site, "index.html", 1600, "light")
    assert "Settings: edge" in search(browser, "edge.operators token")
    assert search(browser, "no-such-word-anywhere").strip() == "0 places"
    first = "document.querySelector('#found a').getAttribute('href')"
    search(browser, "rendezvous hash")
    assert browser.evaluate(first).startswith("architecture.html#")


def test_what_got_into_a_page_would_not_run(browser: Browser, site: Path) -> None:
    look(browser, site, "index.html", 1600, "light")
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert browser.evaluate("window.ran") is None
    assert browser.evaluate("refused") == ["inline"]
